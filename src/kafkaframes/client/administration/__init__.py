"""The methods of the admin client, one module for each kind of resource. ``client.admin.AsyncAdmin`` inherits them."""
