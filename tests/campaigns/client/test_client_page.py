"""The snippets of docs/service/client.md run, in their order, against a server of the contract."""

import ast
import asyncio
import inspect
import re
from functools import partial
from pathlib import Path

from contract_server import TOKEN, ContractServer
from rareswitch.campaigns import Campaign, episodes, open_store
from rareswitch.campaigns import client as package
from rareswitch.service.demo import demo_protocol

PAGE = Path(__file__).parents[3] / "docs" / "service" / "client.md"


def test_the_snippets_of_the_page_run(tmp_path, monkeypatch):
    protocol, features = demo_protocol()
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = Campaign.create(store, protocol, by="ana", features=features)
        server = ContractServer(campaign)
        settings = {"transport": server.transport, "background": False}
        monkeypatch.setenv("RARESWITCH_TOKEN", TOKEN)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        for name in ("Client", "AsyncClient"):
            made = partial(getattr(package, name), **settings)
            monkeypatch.setattr(package, name, made)
        text = PAGE.read_text("utf-8").replace("/var/lib/berlin", str(tmp_path / "berlin"))
        names = {}
        for source in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(source, "docs/service/client.md", "exec", flags=flags)
            result = eval(code, names)
            if inspect.iscoroutine(result):
                asyncio.run(result)
        said = re.search(r"# (Flushed.*)", text)[1]
        assert names["sent"].recorded == 1  # there is no thread that has sent it before
        assert repr(names["sent"]._replace(recorded=0)) == said
        assert names["action"] in protocol.actions
        assert (names["status"].reserved, names["refused"]) == (100, [])
        assert [one["episode_id"] for one in episodes(campaign)] == ["berlin:0042"]
        assert len(list((tmp_path / "state").rglob("outbox/*"))) == 1  # the loop's report
