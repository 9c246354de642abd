"""The folder of a run: what lies in it, and what it says of where it was made."""
