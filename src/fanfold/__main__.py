"""`python -m fanfold` is `fanfold`."""

from fanfold.cli.entry import main

if __name__ == "__main__":
    main()
