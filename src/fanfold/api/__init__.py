"""What programs call, and the command line too: a push, a lab, a comparison, a study.

``import fanfold`` offers these functions and loads them where they are used (docs/api.md).
"""
