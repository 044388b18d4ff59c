#!/usr/bin/env python
"""Django's entry point; `python manage.py up` is the product in one process tree."""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["up"]:
        # Before Django: its settings need the database that this command starts.
        from webapp.up.command import main as up

        sys.exit(up(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
