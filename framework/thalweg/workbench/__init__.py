"""What the command line needs and no plugin does.

``command``
    ``thalweg`` and its subcommands.
``config``
    A configuration: its sections, read and checked.
``readers``
    Files and named sets of data.
``run``
    One configured run or a comparison, and its folder.
``plan``
    What a run would take, told beforehand.
``report``
    Tables, pictures and pages.
``doctor``
    What is installed, and what is wrong with it.
``memory``
    What is free.
``check_plugin``
    The conformance suite on a plugin.
"""
