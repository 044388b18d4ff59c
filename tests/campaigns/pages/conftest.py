from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from campaigns.models import Role
from tests.campaigns.builders import make_user


@pytest.fixture
def ann(db: None) -> User:
    """May launch."""
    return make_user("ann")


@pytest.fixture
def page(ann: User) -> Client:
    """Ann's browser."""
    client = Client()
    client.force_login(ann)
    return client


@pytest.fixture
def admin(db: None) -> Client:
    """The browser of someone who may also archive."""
    client = Client()
    client.force_login(make_user("ada", Role.ADMIN))
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    """The browser of someone who may only read."""
    client = Client()
    client.force_login(make_user("vic", Role.VIEWER))
    return client
