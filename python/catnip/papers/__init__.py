"""The papers that are reproduced: a folder each, with its claims as data, and one way to judge them."""
