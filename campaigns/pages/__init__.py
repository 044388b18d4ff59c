"""What people see: a view checks, calls one service or query, and renders. Services decide what may happen."""
