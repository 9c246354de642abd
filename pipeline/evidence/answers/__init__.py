"""What pipeline/questions.py asks, decided by the intervals of a summary."""
