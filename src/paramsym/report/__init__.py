"""Records in, something a person reads out: tables for the terminal."""
