"""`python -m paramsym` is the command line."""

from paramsym.cli import main

raise SystemExit(main())
