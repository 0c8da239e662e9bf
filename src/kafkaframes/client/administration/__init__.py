"""The admin client's methods, grouped by what they administer; ``client.admin.AsyncAdmin`` inherits all groups."""
