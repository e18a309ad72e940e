"""What all tasks share: encoders, and how they are loaded."""
