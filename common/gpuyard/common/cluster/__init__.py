"""The cluster as the watches show it: objects read from JSON and protobuf, and what each pod means at present."""
