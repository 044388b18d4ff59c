"""`manage.py up`: the whole product as one process tree. Runs before Django's settings, which need what it makes."""
