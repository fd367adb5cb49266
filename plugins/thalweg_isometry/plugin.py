"""What this plugin provides."""
