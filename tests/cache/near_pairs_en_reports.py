"""English pairs about reports of trouble: those that must not share an answer, and those that may.

"It isn't there" and "it is missing" ask the same; "it isn't missing" does not. One pair a line.
"""

from __future__ import annotations

_PAIRS = {
    "negation": """
My lost keys are not in my house | My lost keys are in my house
I don't want to cancel my order | I want to cancel my late order
I can't go to the wedding | I want to go to the wedding
I'm not sure it is safe | I'm sure it is safe
The test failed to start | The test started
He refuses to pay | He pays
Why doesn't my family visit me? | Why does my family visit me?
My refund isn't on my statement | My refund is on my statement
Why is the refund on my statement? | Why is the refund not on my statement?
Why is my card not in my wallet? | Why is my card in my wallet?
Why didn't my card payment work? | Why did my card payment work?
Why doesn't my old laptop start? | Why does my old laptop start?
Why isn't my order shipped? | Why is my order shipped?
Why isn't my disposable card working? | Why is my disposable card working?
Why hasn't my landlord paid? | Why has my landlord paid?
My card doesn't seem to work | My card seems to work
The page does not appear to load | The page appears to load
I don't think it is safe | I think it is safe
I don't believe my transfer arrived | I believe my transfer arrived
The app won't let me pay | The app lets me pay
Do they not allow dogs? | Do they allow dogs?
Which hotels do not allow dogs? | Which hotels allow dogs?
I did not receive the right amount | I received the right amount
I did not receive the right amount | I did not receive the amount
The screen isn't the same size | The screen is the same size
What should I not have eaten? | What should I have eaten?
What did I eat that I shouldn't have eaten? | What did I eat that I should have eaten?
Name a law that should not have been passed | Name a law that should have been passed
Which items shouldn't have been charged? | Which items should have been charged?
Was I charged a fee that I shouldn't have been charged? | Was I charged a fee that I should have been charged?
I have yet to receive my card | I have received my card
I have no problem with my order | I have a problem with my order
My payment didn't fail | My payment failed
My payment wasn't declined | My payment was declined
My parcel isn't lost | My parcel is lost
I lost my card and want a new one | I lost my card and don't want a new one
My phone was stolen, should I report it? | My phone was stolen, should I not report it?
Why is the test failing with the flag? | Why is the test failing without the flag?
My card is lost, can I still pay? | My card isn't lost, can I still pay?
How can I play if I cannot hear? | How can I play if I can hear?
I can't swim, can I go on the boat? | I can swim, can I go on the boat?
I can't pay my rent, will I be evicted? | How do I pay my rent?
Why can't I log in? | Why can I log in?
How do I find out that I can't have children? | How do I find out that I can have children?
I can't open the door | I can open the door
Can I drive without a licence? | Can I drive with a licence?
Can I travel without telling my bank? | Can I travel if I tell my bank?
I don't have my passport, can I fly? | I have my passport, can I fly?
Why am I able to upload photos? | Why am I unable to upload photos?
Why am I able to upload photos? | Why am I not able to upload photos?
    """,
    "date": """
I lost my card yesterday | I lost my card last week
I lost my card two days ago, can I still report it? | I lost my card 20 days ago, can I still report it?
I took a pill an hour ago, can I take another? | I took a pill 8 hours ago, can I take another?
I took a pill an hour ago, can I take another? | I took a pill, can I take another?
What did I spend yesterday? | What did I spend?
Show the payments that failed yesterday | Show the payments that failed
Which of my payments failed today? | Which of my payments failed?
How many of my orders were lost last week? | How many of my orders were lost?
I bought it three weeks ago, can I return it? | I bought it, can I return it?
My flight was cancelled yesterday. What was cancelled today? | My flight was cancelled yesterday. What was cancelled?
I failed my exam today, is there another one tomorrow? | I failed my exam today, is there another one?
I will lose my job next month. What now? | I will lose my job. What now?
    """,
    "contrast": """
How do I pay by check? | How do I pay by card?
Can I send check? | Can I send cash?
Can you pay by check? | Can you pay by card?
Can I eat before the test? | Can I eat after the test?
Can I use my account before my identity is verified? | Can I use my account after my identity is verified?
Can I deposit a check? | Can I deposit cash?
Did he check in? | Did he check out?
How do I zoom in on the map? | How do I zoom out on the map?
    """,
    "order": """
Should I boil then peel potatoes? | Should I peel then boil potatoes?
Can I eat before I run? | Can I run before I eat?
Should I wash it after I dry it? | Should I dry it after I wash it?
Does my family support Ana? | Does Ana support my family?
Did Italy invade France? | Did France invade Italy?
Who did Tom invite? | Who invited Tom?
Which team did Spain beat? | Which team beat Spain?
What do bears eat? | What eats bears?
How do I exchange euros for dollars? | How do I exchange dollars for euros?
Exchange my euros to dollars | Exchange my dollars to euros
Trade apples for pears | Trade pears for apples
How do I use an app to turn text into speech? | How do I use an app to turn speech into text?
I want to fly from Rome to Oslo | I want to fly from Oslo to Rome
Do I need to go from home to work? | Do I need to go from work to home?
Does my boss secretly like my wife? | Does my wife secretly like my boss?
If Ana pays Bo, who wins? | If Bo pays Ana, who wins?
Why is the cat afraid of the dog? | Why is the dog afraid of the cat?
Is Ana's boss Bo's wife? | Is Bo's boss Ana's wife?
What is the exchange rate from euro to dollar? | What is the exchange rate from dollar to euro?
What is the exchange rate of pounds for euros? | What is the exchange rate of euros for pounds?
    """,
    "name": """
Does IOS support it? | Does IBM support it?
    """,
}

_SAME = """
My refund for the blue shoes isn't on my statement | My refund for the blue shoes is missing on my statement
I could not get my money back | My money was not returned
Why isn't my new virtual card working? | My new virtual card isn't working
Can I pay without verifying my identity? | Can I pay although my identity is not verified?
My phone is not charging at all | My phone is not charging
Do I get a discount if I pay a year ahead? | I pay a year ahead. Do I get a discount?
How do I use the site to swap seats? | How do I swap seats with this site?
Can I automatically top up when I travel? | When I travel, can I top up automatically?
The app failed to start | The app did not start
I'm not sure why my order is late | Why is my order late?
My parcel isn't there | My parcel is gone
Can you please check why I was charged? | Why was I charged? I paid by card
What do I do after I lose my keys? | After I lose my keys, what do I do?
My refund isn't on my statement | My refund is missing from my statement
I have yet to receive my card | I haven't received my card yet
My card doesn't seem to work | My card doesn't work
My card does not appear to be working | My card isn't working
I don't think my upload worked | My upload didn't work
Why didn't my card payment work? | Why did my card payment fail?
Why isn't my pending order shipped? | Why is my order pending?
Why was I not able to log in? | Why was I unable to log in?
The app won't let me log in | I can't log in to the app
I didn't receive the right amount | The amount I received was wrong
I can't find my ticket | Where is my ticket?
I can't find my ticket | How do I find my ticket?
I can't open the file, what should I do? | How do I open the file?
I cannot seem to activate my phone | How do I activate my phone?
Can I pay before my account is verified? | Can I pay although my account is not verified yet?
What do I do if I lost my keys? | I lost my keys, what should I do?
How do I use the app to send photos? | How do I send photos with the app?
Does it mean anything when my dog sneezes? | When my dog sneezes, does it mean anything?
I lost my keys yesterday, what now? | I lost my keys, what now?
My order from last week hasn't arrived | My order hasn't arrived
I sent a parcel two days ago and it has not arrived | I sent a parcel and it has not arrived
Yesterday my bike was stolen. What can I do? | My bike was stolen. What can I do?
Please check why my order is late, I paid by card | I paid by card, why is my order late?
How do I get my card out of the machine? | My card is stuck in the machine, how do I get it out?
Which ATMs take my card? | Is there an ATM that takes my card?
Where do you deliver? | You deliver where?
Which countries do you deliver to? | You deliver to which countries?
Can I quickly change my name? | Can I change my name quickly?
What happened to my order? It hasn't come | My order hasn't come, what happened to it?
I need to send money to Spain. How long does it take? | How long does it take to send money to Spain?
"""

DIFFERENT = {
    kind: [tuple(line.strip().split(" | ")) for line in lines.strip().splitlines()]
    for kind, lines in _PAIRS.items()
}
SAME = [tuple(line.split(" | ")) for line in _SAME.strip().splitlines()]
