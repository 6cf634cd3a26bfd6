"""Templates of whole texts: stories, conversations, letters, recipes, reports, lessons and lists."""

from engine.demo.phrases import PHRASE_RULES, parse_rules
from engine.demo.sentences import SENTENCE_RULES

_STORIES = """
story:
{opening} {portrait} {wish} {obstacle} {attempt} {helper} {turn} {ending}
{opening} {portrait} {wish} {obstacle} {turn} {ending}
{opening} {portrait} {portrait} {wish} {attempt} {ending}
{opening} {wish} {obstacle} {attempt} {attempt} {helper} {talk} {turn} {ending}
{opening} {portrait} {talk} {turn} {ending}
opening:
Once upon a time there was a {temper} {A.king} who lived in a {look} castle.
Once upon a time there was a little {A.boy} named {A}.
Once upon a time there was a {temper} {A.boy} who lived in a small house near the forest.
Once upon a time there was an old {A.man} who had a {look} {animal=pet}.
Once upon a time, in a small village near {city}, there lived a {temper} {A.boy} called {A}.
Once there was a {temper} {worker} whose name was {A}.
Long ago, in {country}, there was a {A.man} who had {number} {A.son}s and one {animal=pet}.
A long time ago there was a {look} {animal=pet} that could speak.
There was once a {temper} {A.man} called {A}, who lived alone near the {any_place}.
There once was a {A.prince} who was always {feeling}.
One day a {temper} {A.boy} named {A} went to the {place}.
One {weather} morning, {A} woke up and looked out of the window.
Last {day}, {A} and {A.his} {relative} went to the {place} to {do}.
It was a {weather} day in {month}, and {A} had nothing to do.
It was a dark and {weather} night. {A} could not sleep.
In a {look} house near the {any_place} lived a {temper} {A.man} named {A}.
Many years ago, a {temper} {worker} named {A} came to {city}.
{A} was a {temper} {worker} from {city}.
{A} was {count} years old when this story began.
portrait:
{A.His} name was {A}, and {A.he} was {temper} and {temper}.
{A} loved to {do}, and {A.he} did it {often_time}.
{A.He} had a {relative} named {B}, who was very {temper}.
{A.He} had a {look} {animal}, and the {animal} always slept on the {seat}.
{A.He} had a {look} {treasure=prize} that {A.his} grandmother had given {A.him}.
{A.He} had no money, but {A.he} had a good heart.
Everybody in the village knew {A.him} because {A.he} was so {temper}.
{A.His} best friend was {B}, and they did everything together.
{A.His} house was {look}, with a {colour} door and {number} windows.
Every morning {A.he} got up early, and then {A.he} {do.past}.
People said that {A.he} was the most {temper} {worker} in the country.
wish:
One day {A.he} wanted to {do}.
More than anything, {A} wanted to {do=goal}.
{A} wanted to find a {treasure}, but nobody knew where it was.
{A.He} dreamed of a {look} {treasure=prize}.
One day {A.his} {relative} became ill and needed a {look} {thing}.
One day {A} lost {A.his} {treasure=prize} {where}.
One morning {A.he} saw that the {treasure=prize} was gone.
{A} wished to {do}, but {A.he} had never done it before.
One day a letter came. It said: "Please come to {city} and bring the {treasure=prize}."
One day a {animal} came to the door and asked for {food}.
{A.His} greatest wish was to travel to {country} and to {do}.
obstacle:
But the way was long, and it was {weather}.
But the {place} was closed.
But there was a {look} {animal} in front of the {place}, and {A} was afraid.
But {A.he} had forgotten the {thing} at home.
But the {thing} was too {look}.
But nobody wanted to help {A.him}.
But it was not easy to {do}.
But the {person} said, "You cannot {do} here."
However, the {thing} was broken, and {A.he} did not know how to repair it.
Suddenly it began to rain, and {A.he} had no umbrella.
Suddenly the light went out, and {A} could not see anything.
The road was closed because of the snow.
On the way {A.he} lost {A.his} {thing}.
attempt:
{A.He} looked {where}, but there was nothing there.
First {A.he} {do.past}, but it did not help.
{A.He} tried to {do} again and again.
{A.He} asked the {worker}, but the {worker} did not know.
{A.He} went to the {place}, and then {A.he} went to the {any_place}.
{A.He} thought about it {until}.
So {A.he} took the {thing} and {do.past}.
So {A} left the house and walked to the {place}.
{A.He} sat down on the {seat} and began to think.
For {number} days {A.he} looked for the {thing}.
helper:
Then {A.he} met {B}, a {temper} {worker}.
Then {A} met an old {person} who said, "I can help you."
A {temper} {animal} saw {A.him} and came closer.
Just then {B} came to the {place}.
At that moment {A} heard a {look} {animal} {where}.
Luckily {B} was there, and {B.he} had a {noun}.
{A.His} friend {B} had an idea.
The next day {A.he} met a {person} from {country}.
talk:
"What are you doing here?" asked {B}. "I want to {do}," said {A}.
"Why are you {feeling}?" {B.he} asked. "I cannot find my {thing}," answered {A}.
"Can you help me?" asked {A}. "Of course," said {B}, "but first we must {do}."
"Do not be afraid," said {B}. "We will {do} together."
"I know where it is," said {B}. "It is {where}."
"If you {do}," said the {person}, "I will give you a {look} {treasure}."
"Look!" cried {A}. "There is a {animal} {where}!"
"Let us go to the {place}," said {B}. {A} was {feeling} and said nothing.
"Who are you?" asked {A}. "My name is {B}," {say} {B}, "and I live in the {any_place}."
turn:
Together they {do.past}, and soon they found the {thing}.
Together {A} and {B} went to the {place} and {do.past}.
At last {A.he} found the {thing} {hiding}.
In the end it was {hiding}.
Then {A.he} had an idea. {A.He} took the {thing} and {do.past}.
{B} gave {A} a {noun}, and {A} gave {B} a {treasure}.
{B} showed {A} how to {do}, and after {number} hours {A} could do it too.
They {do.past} {until}.
Suddenly the {animal} began to speak. "Thank you," it said.
The {person} smiled and opened the {thing}.
{A} thanked {B} and went home.
ending:
{A} was very {feeling}, and from that day on {A.he} {do.past} {often_time}.
From that day on, {A} and {B} were best friends.
And they lived happily ever after.
And that is how {A} learned to {do}.
{A} came home late, ate {food}, and went to bed.
{A} was tired but happy, and {A.he} slept until the next morning.
"That was a good day," said {A}.
"Thank you, {B}," said {A}. "You are a good friend."
{A} never forgot that day.
After that, {A} always kept the {treasure} in {A.his} {thing}.
When {A.he} came home, {A.his} {relative} asked, "Where have you been?" {A} only smiled.
In the evening they sat together, and {B} told a story.
"""

_OTHERS = """
conversation:
{greeting} {exchange} {exchange} {parting}
{greeting} {exchange} {exchange} {exchange} {parting}
{exchange} {exchange}
greeting:
"Hello, {A}," said {B}. "How are you?" "I am {feeling}, thank you," said {A}.
"Good morning, {A.mr} {surname=family}," said the {worker}. "Good morning," said {A.mr} {family}.
"Good evening," said {A}. "Is the {place} still open?" "Yes, until {hour} o'clock," said the {worker}.
{A} met {B} {where}. "Hello, {B}!" said {A}. "Hello, {A}!" said {B}.
exchange:
"Where are you going?" asked {A}. "I am going to the {place}," {B} answered. "I want to {do}."
"What did you do {when}?" asked {B}. "I {do.past}," said {A}, "and then I {do.past}."
"Do you want to {do} with me?" asked {A}. "I would love to," said {B}, "but I have to {do}."
"Have you seen my {thing=lost}?" asked {B}. "The {lost} is {where}," said {A}.
"Is this your {thing=lost}?" asked {A}. "No, my {lost} is {colour}," said {B}.
"How much is the {noun}?" asked {A}. "It is {count} euros," {say} the {worker}.
"I think it is {verdict} to {do}," said {A}. "I think so too," said {B}.
"I think it is {verdict} to {do}," said {B}. "I do not agree," said {A}.
"Would you like {drink} or {drink}?" asked {B}. "I would like {food}, please," said {A}.
"Who taught you to {do}?" asked {A}. "My {relative} did," said {B}.
"When does the {transport} leave?" asked {A}. "At {hour}:{minute}," said the {worker}.
"What is the weather like in {city}?" asked {B}. "It is {weather} and {weather}," said {A}.
parting:
"See you on {day}," said {A}. "Goodbye, {A}," said {B}.
"Goodbye," said {B}, and {B.he} went to the {place}.
"Thank you for the {thing}," said {A}. "You are welcome," said {B}.
introduction:
My name is {A} and I live in {city=town}. I am {age} years old. {about_me} {about_me} {about_me} Come and visit me in
    {town}!
My name is {A} {surname}. I am a {worker} from {city=town}. {about_me} {about_me} I like {town} because the people
    are {temper}.
I am {A}, and this is my {relative} {B}. We live in {city}. {about_me} {B} likes to {do}, but I like to {do}.
This is {A}. {A.He} is a {worker} and lives in {city=town} with {A.his} {animal=pet}. The {pet} likes to {do}.
    {sentence}
about_me:
I work at a {place}, and {often_time} I {do}.
I have a {relative} named {B}. {B.He} is a {worker}.
I have {number} {animal.pl} and a {look} house.
In my free time I like to {do} and to {do}.
My favourite food is {food}, and my favourite colour is {colour}.
My favourite subject is {subject}.
I speak {language}, and now I want to learn {language}.
When I was young, I wanted to be a {any_worker}.
letter:
Dear {A},\\nThank you for your letter. {letter_line} {letter_line} {letter_line}\\nYours,\\n{B}
Dear {A},\\nHow are you? I am {feeling}. {letter_line} {letter_line} Please write soon.\\nLove,\\n{B}
Dear {A.mr} {surname},\\nI am writing to you because I want to {do}. {letter_line} {letter_line}\\nYours
    sincerely,\\n{B} {surname}
Hi {A},\\n{letter_line} {letter_line}\\nSee you on {day}!\\n{B}
letter_line:
The weather here in {city} is {weather}.
Yesterday we went to the {place} and {do.past}.
I have a new {thing}, and it is very {look}.
My {relative} {C} is {feeling} because {C.he} could not {do}.
Next {season} I will come to {city}, and then we can {do}.
Do you remember {C}? {C.He} is a {worker} now.
I hope that you are well and that you can {do} again.
Could you send me the {noun}, please?
recipe:
How to make {ingredient=main} {dish=dish}\\nYou need {number} {unit_food} of {main}, some {ingredient} and some
    {ingredient}. {steps} Serve the {dish} with {food}.
To make {dish=dish}, you need {ingredient=main}, {ingredient} and {ingredient}. {steps} Now the {dish} is ready to
    eat.
unit_food:
cups
spoons
pieces
grams
steps:
First, wash the {main} and cut everything into small pieces. Then put the {main} into a pot and add some
    {ingredient}. Cook it for {count} minutes.
First, mix the {main} with the {ingredient}. Next, add {ingredient} and stir {manner}. Finally, bake it for {count}
    minutes.
Heat the {ingredient} in a pan. Add the {main} and some {ingredient}. Let it cook until everything is soft.
Put the {main} in a bowl. Add {number} spoons of {ingredient}, and wait for {count} minutes. Then heat the oven.
report:
The weather in {city}: today it is {weather} and {weather}, with {degrees} degrees. Tomorrow it will be {weather}. On
    {day} it will be {weather} again.
News from {city}: The {any_place=spot} was opened on {day}. It took {number} years to build the {spot}. "We are
    {feeling}," said {A} {surname=family}, the {worker}. {A.mr} {family} wants to {do} there.
In {year}, {A} {surname=family} discovered a {noun} in {country}. {family} was a {temper} {worker}. Today the {thing}
    is in a museum in {city}.
{A} {surname=family} was born in {city}. {A.He} studied {subject=field} in {city}. Later {family} became a {worker},
    moved to {country} and wrote a book about {field} in {year}.
The report shows that the number of {any_thing.pl} rose by {digit} percent in {month}. The {worker} says that it is
    {verdict} to {do}.
The {transport=ride} from {city=start} to {city=goal} leaves at {hour}:{minute}. The {ride} arrives in {goal} at
    {hour}:{minute}. A ticket from {start} to {goal} costs {count} euros.
Day {digit}. It was {weather} today. I {do.past} and {do.past}. In the evening I was {feeling}.
The {any_place=spot} of {city} is very old. It was built in {year}. Every year {count} thousand people visit the
    {spot}. In {season} you can {do} there.
lesson:
The {creature=c.1} is a {c.2}. It lives in {c.4} and eats {c.3}. Listen, you can hear it {c.5}.
A {creature=c.1} eats {c.3}. A {creature=d.1} eats {d.3}. The {c.1} lives in {c.4}, but the {d.1} lives in {d.4}.
{capital=c.2} is the capital of {c.1}. {capital=d.2} is the capital of {d.1}. If you travel from {c.1} to {d.1}, you
    can visit {d.2}.
The capital of {capital=c.1} is {c.2}, the capital of {capital=d.1} is {d.2}, and the capital of {capital=e.1} is
    {e.2}.
A {job=j.1} {j.2}. A {job=k.1} {k.2}. My {relative} is a {j.1}, and my {relative} is a {k.1}.
You use a {tool=t.1} to {t.2}. You use a {tool=u.1} to {u.2}. Do not use a {t.1} to {u.2}.
The opposite of {opposite=o.1} is {o.2}. The opposite of {opposite=p.1} is {p.2}. What is not {o.1} is {o.2}.
{coloured=k.1} is {k.2}, and {coloured=l.1} is {l.2}. Is {k.1} {l.2}? No, {k.1} is {k.2}.
{sum=s.1} plus {s.2} is {s.3}. {sum=t.1} plus {t.2} is {t.3}. {sum=u.1} + {u.2} = {u.3}.
There are seven days in a week: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday. Today is {day}.
There are twelve months in a year: January, February, March, April, May, June, July, August, September, October,
    November and December.
One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve. I can count to {number}.
{cause=w.1}, so {A} {w.2}. {A} {w.2} because {w.1}.
{cause=w.1}, so {A} {w.2}.
"""

_LISTS = """
facts:
{A} lives in {city=x}. {B} lives in {city=y}. {C} lives in {city=z}. Where does {A} live? {A} lives in {x}. Where
    does {B} live? {B} lives in {y}. Where does {C} live? {C} lives in {z}.
{A} has a {colour=x} {thing=t}. {B} has a {colour=y} {t}. What colour is the {t} of {B}? It is {y}. What colour is
    the {t} of {A}? It is {x}.
{A} is at the {any_place=x}. {B} is at the {any_place=y}. {sentence} Where is {A}? {A} is at the {x}. Where is {B}?
    {B} is at the {y}.
{A} put the {treasure=x} {hiding=y}. {sentence} {B} asked, "Where is the {x}?" {A} said, "The {x} is {y}."
{A} is {count=x} years old, and {B} is {count=y} years old. How old is {A}? {A} is {x}. And how old is {B}? {B} is
    {y}.
{A} likes {food=x}, and {B} likes {food=y}. For {B} we will buy {y}, and for {A} we will buy {x}.
The {treasure=x} costs {count=n} dollars, and the {treasure=y} costs {count=m} dollars. {A} paid {n} dollars for the
    {x} and {m} dollars for the {y}.
{A} is a {any_worker=x}, {B} is a {any_worker=y}, and {C} is a {any_worker=z}. The {x} is {A}. The {y} is {B}. The
    {z} is {C}.
When {A} and {B} went to the {place}, {A} gave a {treasure=x} to {B}. Now {B} has the {x}.
{A} gave the {treasure=x} to {B}, and {B} gave the {x} to {C}. Who has the {x}? {C} has the {x}.
list:
Things to buy: {food}, {food}, {drink}, a {thing}, {number} {thing.pl} and {food}.
Things to do: {do}, {do}, {do} and {do}.
At the {place} there are {number} {thing.pl}, {number} {thing.pl}, a {thing} and a {noun}.
Questions: Where is the {thing}? Who has the {thing}? When can we {do}? Why is the {place} {look}?
Rules of the {place}: Do not {do}. Always {do} {manner}. Never {do} when it is {weather}.
Plan for {day}: at {hour} o'clock {do}, at {hour} o'clock {do}, and in the evening {do} with {A}.
My {thing.pl}: one is {colour}, one is {colour}, and {number} are {colour}.
Names: {A} {surname}, {B} {surname}, {C} {surname}.
"""

DOCUMENT_RULES: dict[str, tuple[str, ...]] = {
    **PHRASE_RULES,
    **SENTENCE_RULES,
    **parse_rules(_STORIES),
    **parse_rules(_OTHERS),
    **parse_rules(_LISTS),
}
"""Every rule that the writer knows."""

KINDS: dict[str, int] = {
    "story": 6, "conversation": 3, "introduction": 2, "letter": 2, "recipe": 1, "report": 2, "lesson": 3, "facts": 3,
    "list": 1, "paragraph": 7, "sentence": 5,
}  # fmt: skip
"""The kinds of document, each with how often it is written in comparison with the others."""
