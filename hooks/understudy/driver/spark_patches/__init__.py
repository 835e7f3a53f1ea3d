"""What understudy replaces in PySpark, Delta Lake and Python's standard library.

``targets`` declares every replaced attribute with its reason. ``registry`` installs a replacement once and can undo it.
``stock`` describes the original text, so that a test notices a release that changed it. The other modules hold the replacements.
"""
