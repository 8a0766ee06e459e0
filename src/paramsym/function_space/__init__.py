"""What parameters can do to the function: a model and inputs go in; ranks and ledgers come out."""
