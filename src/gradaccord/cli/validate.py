"""The command `validate`: checks a configuration before a long run."""

from __future__ import annotations

from gradaccord.cli.exit_codes import needs, user_mistakes
from gradaccord.cli.options import DataOption, FileArgument, OverridesArgument


@needs("train")
def validate(
    file: FileArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
) -> None:
    """Check a configuration: read all data, run a few steps, estimate memory and time.

    Ends with a summary of each task's data. Nothing is written. For example:

    [bold]gradaccord validate trio.yaml method=pcgrad[/bold]
    """
    from rich.console import Console

    from gradaccord.train.config_file import read_config

    console = Console()
    with user_mistakes(ValueError, OSError, ModuleNotFoundError):
        config = read_config(file, overrides or [])
        from gradaccord.cli.data_cards import card_table
        from gradaccord.cli.screen import watching
        from gradaccord.train.dry_run import dry_run

        with watching(console) as watch:
            for found in dry_run(config, data, watch):
                if isinstance(found, str):
                    watch.say(found)
                else:
                    console.print()
                    console.print(card_table(found))
