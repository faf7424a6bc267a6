"""The normal form: what is the same text typed otherwise, and what must not be taken for it."""

from __future__ import annotations

import pytest

from cache.acceptance import is_same, normalised

SAME = [
    ("What is TLS?", "what is tls"),
    ("  What   is\u00a0 TLS ?", "What is TLS?"),
    ("What is TLS?\n", "what is tls?"),
    ("Ｗｈａｔ is ＴＬＳ？", "What is TLS"),
    ("HOW DO I INSTALL FIREFOX", "How do I install Firefox?"),
    ("Tell me about Paris.", "tell me about paris"),
    ("Don’t I need a visa?", "don't I need a visa"),
    ("Stop the timer!", "Stop the timer."),
    ("Explain entropy…", "explain entropy"),
    ("Is it 10:30?", "is it 10:30"),
    ("Rust never sleeps.", "rust never sleeps"),  # a capital at the start says nothing
    ("i think I can. Can I?", "I think i can. can I"),
    ("cafe\u0301 in Rome?", "caf\u00e9 in Rome?"),
    ("什么是熵？", "什么是熵"),
    ("这个能退货吗", "这个能退货吗？"),
    ("介绍一下北京。", "介绍一下北京！"),
    ("怎么下载ＷＰＳ？", "怎么下载wps"),
]
OTHER = [
    # the words
    ("Is 3.10 newer?", "Is 3.1 newer?"),
    ("What is C++?", "What is C#?"),
    ("Is it?", "Isn't it?"),
    ("cafe", "café"),
    ("What is (a, b)?", "What is [a, b]?"),
    ("How do I do it?", "How does one do it?"),
    # a capital that says something
    ("When did us join?", "When did US join?"),
    ("What is polish?", "What is Polish?"),
    ("Does it pay?", "Does IT pay?"),
    ("What do they do -- polish shoes?", "What do they do -- Polish shoes?"),
    ("Who aids them?", "Who AIDS them?"),
    ("How fast can a python go?", "How fast can a Python go?"),
    ("What does vitamin a do?", "What does vitamin A do?"),
    ("Is 5 MB enough?", "Is 5 Mb enough?"),
    ("Is 5mW enough?", "Is 5MW enough?"),
    ("What does getUserID return?", "What does getuserid return?"),
    ("What does error e404B mean?", "What does error E404b mean?"),
    ("Decode aGVsbG8", "Decode AGVSBG8"),
    ("Decode aGVsbG8 for me", "Decode AGVSBG8 for me"),
    # signs that say something
    ("What is 5²?", "What is 52?"),
    ("What is ½?", "What is 1⁄2?"),
    ("How much is 5!?", "How much is 5?"),
    ("You are coming?", "You are coming."),
    ("他是老师？", "他是老师。"),
    ("Explain gravity?!", "Explain gravity!"),
    # texts in which each sign counts
    ("Run ls -R", "Run ls -r"),
    ("Print $PATH", "Print $path"),
    ("What does print(X) do?", "What does print(x) do?"),
    ("What is at https://a.b/C?", "What is at https://a.b/c?"),
    ("Open /etc/Hosts", "Open /etc/hosts"),
    ("Mail Bob@a.org", "Mail bob@a.org"),
    ('What does "Sue" mean?', 'What does "sue" mean?'),
    ("What does 'Sue' mean?", "What does 'sue' mean?"),
    ("“行”和“行 ”一样吗", "“行”和“行”一样吗"),
    ("Correct this: i live in paris", "Correct this: I live in Paris"),
    ("翻译：Polish", "翻译：polish"),
    ("Improve\nMy house", "Improve\nmy house"),
    ("def f():\n    return X", "def f():\n    return x"),
    ("Is B in lower case?", "Is b in lower case?"),
    ("What is the base64 of Hello?", "What is the base64 of hello?"),
    ("sha256 of abc", "SHA256 of ABC"),
    ("How many exclamation marks are in hi!!!", "How many exclamation marks are in hi!"),
    ("Is Hannah a palindrome?", "Is hannah a palindrome?"),
    ("修改病句 他很高兴。", "修改病句 他很高兴"),
    ("Are two  spaces wrong?", "Are two spaces wrong?"),
    ("句末要加句号等标点吗。", "句末要加句号等标点吗"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_how_a_text_is_typed_makes_no_difference(one: str, other: str) -> None:
    assert normalised(one) is not None
    assert is_same(one, other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_may_mean_something_does(one: str, other: str) -> None:
    assert not is_same(one, other)


@pytest.mark.parametrize(
    "text", ["print(`X`)", "if (A) { b(); }", "a = B", "x < Y", "C:\\Temp", "", "?!", "   ", "a" * 1001]
)
def test_code_and_long_texts_and_nothing_have_no_normal_form(text: str) -> None:
    assert normalised(text) is None
    assert is_same(text, text)


@pytest.mark.parametrize("text", [one for one, _ in SAME])
def test_a_normal_form_is_its_own(text: str) -> None:
    form = normalised(text)
    assert form is not None
    assert normalised(form) == form


@pytest.mark.parametrize("text", ["\ud83d", "1!" * 400, "é́́", "!" * 1000, " ?" * 500, "(" * 999])
def test_any_text_can_be_read(text: str) -> None:
    assert is_same(text, text)
