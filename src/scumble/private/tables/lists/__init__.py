"""Tables with columns of lists: read, proposed, kept between passes."""
