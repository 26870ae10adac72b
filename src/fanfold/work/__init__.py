"""What is to be moved: collectives and traffic matrices, before any scheme has a say."""
