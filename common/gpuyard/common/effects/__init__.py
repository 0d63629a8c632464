"""What changes the cluster: evict, move and bind, which only the extender and `gpuyard uninstall` do; poke."""
