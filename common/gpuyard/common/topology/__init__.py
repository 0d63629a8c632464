"""The topology: which node has which GPUs, and who uses them. One model, five written forms."""
