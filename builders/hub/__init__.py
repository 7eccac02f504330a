"""Publishing to the Hub: what a folder is, whether it may be published, what would change, and the one commit."""
