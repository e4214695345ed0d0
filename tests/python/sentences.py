"""The 200 test sentences: every kind of text that a tokenizer or an embedding may meet.

The first part is written by hand, the rest is drawn with a fixed seed, so the list is the same
everywhere. Tests of tokens and of embeddings share it. No sentence holds a NUL, so each can be a
command-line argument.
"""

import random

COUNT = 200

SHORT = [
    "",
    " ",
    "\t\n\r ",
    "\u00a0\u2003\u3000\u200b",
    "a",
    "7",
    "!",
    "Kettle",
    "the",
    "The heron stood in the shallow water and waited for the wind to drop.",
    "A feed-forward layer widens each token, bends it, and narrows it again.",
    "Two thirds of the weights sit between attention and the next norm.",
    "She sold nine brass lamps, three of them broken, to a man from Ghent.",
    "Nobody had told the ferry captain that the bridge was already open.",
    "Is it raining in Porto, or is that only the sprinkler again?",
    'He said: "Bring the ladder!" - and then, quietly, "please".',
    "OLD NEWS TRAVELS SLOWLY BUT IT ARRIVES",
    "mIxEd CaSe WoRdS aRe HaRd To ReAd",
    "iPhone, eBay, McDonald, LaTeX, GitHub, NaN, kWh",
    "unbelievably antidisestablishmentarian counterrevolutionaries",
    "tokenization untokenizable retokenizing detokenizer",
]

SCRIPTS = [
    "Caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u00fcber fa\u00e7ade jalape\u00f1o",
    "Cafe\u0301 nai\u0308ve re\u0301sume\u0301 u\u0308ber fac\u0327ade jalapen\u0303o",
    "\u1e69 s\u0323\u0307 s\u0307\u0323 q\u0307\u0323 \u01d6 u\u0308\u0304",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035aa\u0348l\u0320g\u0321o\u035b",
    "\u0130stanbul \u0131\u015f\u0131k I\u011fd\u0131r \u0130\u0130\u0130 i\u0307",
    "Stra\u00dfe STRASSE STRA\u1e9eE Fu\u00df \u1e9e",
    "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd"
    "\u03c2 \u03a3 \u03c3\u03c2 \u03a3\u0391\u03a3",
    "\u1f08\u03c1\u03c7\u1f75 \u1f10\u03bd \u1f00\u03bd\u03b8\u03c1\u03ce\u03c0\u1ff3",
    "\u041c\u043e\u043b\u043e\u043a\u043e \u0441\u0442\u043e\u0438\u0442 \u043d\u0430"
    " \u0441\u0442\u043e\u043b\u0435, \u0430 \u043a\u043e\u0442 \u0441\u043f\u0438\u0442.",
    "\u0407\u0436\u0430\u043a \u0456 \u0439\u043e\u0433\u043e \u0434\u0440\u0443\u0437\u0456;"
    " \u0401\u043b\u043a\u0430",
    "\u0540\u0561\u0575\u0565\u0580\u0565\u0576 \u0587 \u0533\u056b\u0580\u0584",
    "\u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8 \u1c90\u1c91\u1c92",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u3002",
    "\u6211\u5728Berlin\u5de5\u4f5c3\u5e74\u4e86",
    "\U00020000\U0002a6d6\U0002b740\U0002ceb0\uf900\U0002f800 \u3400\u9fff",
    "\u6771\u4eac\u30bf\u30ef\u30fc\u306f\u3069\u3053\u3067\u3059\u304b\uff1f",
    "\u30ac\u30ae\u30b0 \u30ab\u3099\u30ad\u3099\u30af\u3099 \uff76\uff9e\uff77\uff9e",
    "\ud55c\uad6d\uc5b4\ub294 \uc7ac\ubbf8\uc788\uc5b4\uc694.",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \u314e\u314f\u3134",
    "\u0627\u0644\u0642\u0637\u0629 \u062a\u0646\u0627\u0645 \u0639\u0644\u0649"
    " \u0627\u0644\u0643\u0631\u0633\u064a\u060c \u0623\u0644\u064a\u0633 \u0643\u0630\u0644"
    "\u0643\u061f",
    "\u0643\u064e\u062a\u064e\u0628\u064e \u0645\u064f\u062d\u064e\u0645\u064e\u0651\u062f"
    " \u0640\u0640\u0640 \ufefb",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd \u05be \u05f3",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e\u0964"
    " \u0915\u094d\u0937 \u0958",
    "\u09ac\u09be\u0982\u09b2\u09be \u09ad\u09be\u09b7\u09be \u09cb \u09c7\u09be",
    "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0c24\u0c46\u0c32\u0c41\u0c17\u0c41",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e44\u0e21\u0e48",
    "\u1019\u103c\u1014\u103a\u1019\u102c \u1780\u1798\u17d2\u1796\u17bb\u1787\u17b6",
    "\u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51\u0f0d \u1201\u1208\u1210 \u13a0\u13b0",
    "Ti\u1ebfng Vi\u1ec7t r\u1ea5t \u0111\u1eb9p, \u0110\u1eb6NG \u01a0\u01af",
    "Sm\u00f8rrebr\u00f8d \u00c6bler \u00c5rhus \u0141\u00f3d\u017a \u010ce\u0161tina \u0122ird",
    "\U00010400\U00010428 \U0001d400\U0001d68a \u2133 \u210c \u2160\u2170 \u24b6\u24d0",
    "\uff21\uff22\uff23 \uff41\uff42\uff43 \uff11\uff12\uff13 \uff01\uff1f",
    "\ufb01nd the \ufb02ag \ufb03 \u01c4 \u01c5 \u01c6 \u0149",
]

SYMBOLS = [
    "Great work \U0001f600\U0001f389 see you \U0001f44b",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family \U0001f469\u200d\U0001f680",
    "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 flags \U0001f1ef\U0001f1f5",
    "\U0001f44d\U0001f3fb\U0001f44d\U0001f3fd\U0001f44d\U0001f3ff",
    "\u2764\ufe0f \u2764 \u263a\ufe0e 1\ufe0f\u20e3 #\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "\u20ac5, \u00a37.50, \u00a5900, $12, 50\u00a2, \u20b91,000",
    "\u2200x \u2208 \u211d: x\u00b2 \u2265 0 \u2227 \u221a4 = 2 \u2260 \u03c0",
    "\u2190\u2191\u2192\u2193 \u2588\u2593\u2592 \u2014\u2013\u2010 \u2026 \u2022 \u00b7",
    "...!!!???,,,;;;:::---___***///\\\\\\|||~~~^^^%%%@@@&&&###+++===<<<>>>",
    "(([{<\u00ab\u201cquoted\u201d\u00bb>}])) \u2018single\u2019 \u201alow\u2018 \u300cjp\u300d",
    "\u00a1Hola! \u00bfQu\u00e9? \u00a7 5 \u00b6 2 \u2020 \u2021 \u2030",
    "don't can't it's o'clock rock'n'roll y\u2019all",
    "semi-detached well-known e-mail -- --- -5 +7 a-b-c",
    "3.14159 1,234,567.89 1e-9 0x1F 007 42nd 2/3 10% 5\u00d75",
    "2024-02-29T23:59:60Z 12/31/99 7:05am +44 20 7946 0958",
    "1234567890123456789012345678901234567890",
    "\u0661\u0662\u0663 \u0967\u0968\u0969 \u00bd \u00b2 \u2460 \u3007",
    "https://example.org/a/b?c=d&e=%20f#g user.name+tag@example.co.uk",
    "ftp://10.0.0.1:21/~x C:\\Temp\\new.txt ../../etc/hosts",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // dot",
    "def f(x):\n\treturn x if x > 0 else 0.0  # relu\n\n",
    "SELECT name, count(*) FROM birds WHERE wing_cm >= 30 GROUP BY 1;",
    '{"key": [1, 2.5, null], "nested": {"ok": true}}',
    '<p class="x">5 &lt; 6 &amp; 7</p><!-- note -->',
    "$\\frac{a}{b} = \\sum_{i=1}^{n} x_i^2$",
]

INVISIBLE = [
    "tab\tseparated\tvalues\nnew line\r\nwindows line\rold line",
    "   leading and trailing spaces   ",
    "many     spaces      between",
    "no\u00a0break\u2009thin\u202fnarrow\u205fmath\u3000wide\u1680ogham",
    "line\u2028separator\u2029paragraph\u0085next",
    "zero\u200bwidth\u200cnon\u200djoiner\u2060word\ufeffmark",
    "left\u200eright\u200f \u202aembedded\u202c \u202eoverride\u202d \u2066isolate\u2069",
    "soft\u00adhyphen com\u034fbining \u180emongolian \u061carabic",
    "start\x01bell\x07back\bvertical\x0bform\x0cescape\x1b[31mred\x1b[0m del\x7f",
    "c1 \x80\x84\x86\x9f controls",
    "replacement \ufffd here\ufffdand here",
    "private \ue000\uf8ff \U000f0000 use",
    "unassigned \u0378 \U0001fffe \U000e01f0 \uffff",
    "\u0301starts with a mark \u20dd \u0489",
    "annotation \ufff9a\ufffab\ufffb tag\U000e0041",
]

SPECIAL = [
    "[CLS] hello [MASK]",
    "[CLS]hello[SEP]world[SEP]",
    "the [MASK] sat on the [MASK].",
    "[cls] [sep] [mask] [Unk] [pad]",
    "[UNK] [PAD] [PAD]",
    "[ CLS ] [CLS [[CLS]] [MASK]]",
    "x[MASK]y [MASK][MASK]",
    "[MA\u200bSK] [ＭＡＳＫ] [M\u0041\u0301SK]",
    "\ufeff[CLS]\u0301\u0301 [SEP]\x02",
    "##ing # # ## ###a [unused1] <s> </s> <|endoftext|>",
]

OUTSIZED = [
    "a" * 100,
    "a" * 101,
    "b" * 250,
    "\u00e9" * 100,
    "e\u0301" * 100,
    "short " + "pneumono" * 13 + " short",
    "x" * 5000,
    "!" * 300,
    "\u4e2d" * 150,
    "\ud55c" * 33 + " " + "\ud55c" * 34,
    "\U0001f600" * 100 + "\U0001f600",
]

NOUNS = [
    "river",
    "engine",
    "lantern",
    "orchard",
    "kernel",
    "sparrow",
    "matrix",
    "violin",
    "harbour",
    "ticket",
    "garden",
    "neuron",
]
VERBS = [
    "carries",
    "ignores",
    "repairs",
    "counts",
    "follows",
    "paints",
    "measures",
    "borrows",
    "forgets",
    "answers",
]
PLACES = [
    "near the mill",
    "at dawn",
    "in Oslo",
    "without a word",
    "for 12 days",
    "on page 7",
    "twice",
]
MARKS = [".", "!", "?", "...", ";", ""]


def _clause(rng: random.Random) -> str:
    first, second = rng.sample(NOUNS, 2)
    return f"the {first} {rng.choice(VERBS)} the {second} {rng.choice(PLACES)}"


def _sentence(rng: random.Random) -> str:
    text = ", and ".join(_clause(rng) for _ in range(rng.randint(1, 4)))
    return text[0].upper() + text[1:] + rng.choice(MARKS)


def sentences() -> list[str]:
    """Exactly COUNT strings, always the same; four of them are longer than 512 tokens."""
    rng = random.Random(20240229)
    result = SHORT + SCRIPTS + SYMBOLS + INVISIBLE + SPECIAL + OUTSIZED
    result.append(" ".join(_sentence(rng) for _ in range(60)))
    result.append(" ".join(str(rng.randrange(10**6)) for _ in range(300)))
    result.append("\n".join(_sentence(rng).upper() for _ in range(70)))
    result.append(" ".join(rng.choice(SCRIPTS) for _ in range(40)))
    foreign = SCRIPTS + SYMBOLS
    while len(result) < COUNT:
        text = _sentence(rng)
        if len(result) % 5 == 0:
            text += " " + rng.choice(foreign)
        result.append(text)
    assert len(result) == COUNT
    return result
