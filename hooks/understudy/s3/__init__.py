"""The client of a bucket: what blobs and documents there have in common. What is stored is not known here."""
