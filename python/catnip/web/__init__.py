"""Recorded Web sites: recording, replay behind emulated links, and page load times in a browser."""
