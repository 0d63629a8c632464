"""The verbs over HTTP: connections and their limits, who may call, and the messages of the protocol."""
