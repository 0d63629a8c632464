"""A light Kubernetes transport on aiohttp: access, calls, a reflecting cache, events."""
