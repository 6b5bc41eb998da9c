"""People, a clock that a test sets, and cheap passwords for tests of access."""

from rareswitch.campaigns.access import Access, Grant

PASSWORD = "twelve plain words"
ADMINISTRATOR = Grant("*", "administrator")


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


def add_person(access, name, *grants, password=PASSWORD):
    """Invite a person who accepts at once; return the account."""
    return access.accept(access.invite(name, grants, by="Ana"), password)


def with_administrator(store, clock=None):
    """Return the access to a store in which Ana is administrator."""
    access = Access(store, clock=clock or Clock())
    add_person(access, "Ana", ADMINISTRATOR)
    return access


def actions(access):
    """Return what the log of access tells: who did what, and about whom."""
    return [(entry.by, entry.action, entry.about) for entry in access.log(limit=1000)]


def accept(url, told, barrier, secret, password):
    """Accept an invitation from a process of its own; tell who won."""
    from rareswitch.campaigns import open_store
    from rareswitch.campaigns.access import SignInError

    with open_store(url) as store:
        access = Access(store)
        barrier.wait()
        try:
            told.send(access.accept(secret, password).name)
        except SignInError:
            told.send("refused")
    told.close()
