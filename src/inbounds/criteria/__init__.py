"""What a value is: one file per criterion."""
