"""`gpuyard certificates`: make and renew what kube-scheduler and the extender know each other by."""

import datetime as dt
from pathlib import Path

import click
from gpuyard.cli import keeping, token_keeping
from gpuyard.cli.calling import BAD_INPUT, calling, end, reaching
from gpuyard.cli.issuing import Pems, UnreadableError
from gpuyard.common.formats import Teller, formatted
from gpuyard.common.kube.client import Client


@click.group(invoke_without_command=True)
@click.option("-n", "--namespace", default="gpuyard", show_default=True, help="The namespace of the extender.")
@click.option("--renew", is_flag=True, help="Issue both certificates again, even if they are valid for long.")
@click.option(
    "--save",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also write kube-scheduler's files to FOLDER: tls.crt, tls.key, ca.crt.",
)
@formatted
@reaching
@click.pass_context
def certificates(  # noqa: PLR0913, PLR0917 - the options of the command
    asked: click.Context,
    /,
    namespace: str,
    folder: Path | None,
    kubeconfig: str,
    context: str,
    output: str,
    *,
    renew: bool,
) -> None:
    """Create and renew the mTLS certificates of kube-scheduler and the extender.

    They are kept in three Secrets: a certificate authority that signs nothing else, the extender's certificate, and
    kube-scheduler's. Certificates that are valid for more than 30 days stay. The command may be repeated at any time;
    nothing has to be restarted.
    """
    if asked.invoked_subcommand:
        return
    say = Teller(output)

    async def work(client: Client) -> Pems:
        keeper = keeping.Keeper(client, namespace, say, dt.datetime.now(dt.UTC))
        return await keeper.keep(renew=renew)

    try:
        pems = calling(work, kubeconfig, context)
        if folder:
            keeping.save(folder, pems)
            say(f"{folder}: kube-scheduler's tls.crt, tls.key, ca.crt")
    except UnreadableError as error:
        end(f"{error}; delete the Secret and run this again", BAD_INPUT)
    except OSError as error:
        end(f"{folder}: {error.strerror}; name a folder that you may write with --save", BAD_INPUT)
    say.end({"done": say.told}, output)


@certificates.command("token")
@click.option("-n", "--namespace", default="gpuyard", show_default=True, help="The namespace of the extender.")
@click.option("--rotate", is_flag=True, help="Create a new token; the one before stays valid.")
@click.option(
    "--save",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also write kube-scheduler's configuration to FOLDER/config.yaml; other settings in it stay.",
)
@click.option("--offline", is_flag=True, help="Contact no cluster: write the Secret to FOLDER/secret.yaml, too.")
@formatted
@reaching
def certificates_token(  # noqa: PLR0913 - the options of the command
    namespace: str, folder: Path | None, kubeconfig: str, context: str, output: str, *, rotate: bool, offline: bool
) -> None:
    """Create the token that kube-scheduler shows to the extender.

    The token is kept in a Secret, and in the address in kube-scheduler's configuration, which kube-scheduler reads
    when it starts. The command may be repeated at any time: an existing token stays, unless --rotate replaces it.
    """
    say = Teller(output)

    async def work(client: Client) -> str:
        return await token_keeping.Keeper(client, namespace, say).keep(rotate=rotate)

    if offline and not folder:
        raise click.UsageError("--offline needs --save FOLDER")
    try:
        if offline and folder:
            for done in token_keeping.offline(folder, rotate=rotate):
                say(done)
        else:
            token = calling(work, kubeconfig, context)
            if folder:
                say(token_keeping.save(folder, token))
    except token_keeping.NoTokenError as error:
        end(str(error), BAD_INPUT)
    except OSError as error:
        end(f"{folder}: {error.strerror}; name a folder that you may write with --save", BAD_INPUT)
    say.end({"done": say.told}, output)
