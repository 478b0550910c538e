"""Reading users, games, friendships and plays from files into the truth."""
