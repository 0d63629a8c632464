"""Kubernetes objects as the engine's values.

`objects` are the typed forms that JSON is decoded to; one module per kind translates one object at a time, as a watch
needs it. `decode` finds the objects in a document; `assemble` makes a `Snapshot` of many of them, or says all that is
wrong at once.
"""
