"""Which node and which GPU: the rooms of the nodes, topology, pod affinity, and the scratch copy to try on."""
