"""The words that the demo corpus is written with: names, qualities, a few true facts, and themes.

A table is plain text: a line `name:` opens an entry and the entry's items follow, separated by commas. An item with
parts, such as `France=Paris`, is a fact whose parts a template picks by number.
"""


def parse_words(text: str) -> dict[str, tuple[str, ...]]:
    """Read a table of words: every entry's name with its items."""
    words: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in text.strip().splitlines():
        head, colon, rest = line.partition(": ")
        if colon:
            name, line = head, rest
        words[name] = words.get(name, ()) + tuple(item.strip() for item in line.split(",") if item.strip())
    return words


_GENERAL = """
female: Anna, Maria, Sarah, Emma, Julia, Clara, Nora, Lucy, Alice, Mary, Helen, Rosa, Ruth, Grace, Laura, Elena,
Sofia, Mia, Eva, Ida, Amina, Fatima, Leila, Priya, Mei, Yuki, Hana, Zoe, Ella, Kate, Jane, Susan, Linda, Olivia,
Martha
male: Tom, John, Peter, Paul, David, Daniel, Jack, Ben, Max, Leo, Sam, Adam, Simon, Mark, James, Henry, Oscar, Felix,
Hugo, Victor, Omar, Ali, Hassan, Ravi, Kenji, Chen, Ivan, Pedro, Carlos, Luis, George, Frank, Robert, William, Martin
surname: Smith, Brown, Miller, Clark, Green, White, King, Baker, Young, Hill, Wood, Stone, Taylor, Cook, Fisher,
Garcia, Rossi, Meyer, Novak, Silva, Tanaka, Singh, Khan, Berg, Lund, Moreau, Walker, Hall, Price, Carter
city: Paris, London, Berlin, Rome, Madrid, Vienna, Oslo, Lisbon, Athens, Dublin, Prague, Warsaw, Boston, Chicago,
Toronto, Tokyo, Cairo, Delhi, Sydney, Lima, Milan, Hamburg, Geneva, Seattle, Denver, Dallas, Glasgow, Naples, Porto,
New York
country: France, England, Germany, Italy, Spain, Austria, Norway, Portugal, Greece, Ireland, Poland, Sweden, Canada,
Japan, Egypt, India, Australia, Peru, Brazil, Mexico, Kenya, China, Turkey, Finland, Denmark
language: English, French, German, Italian, Spanish, Greek, Polish, Swedish, Japanese, Arabic, Hindi, Portuguese,
Chinese
day: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday
month: January, February, March, April, May, June, July, August, September, October, November, December
season: spring, summer, autumn, winter
number: two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, fifteen, twenty, thirty, fifty,
a hundred
ordinal: first, second, third, fourth, fifth, last, next
colour: red, blue, green, yellow, black, white, brown, grey, golden, silver, orange, purple, pink
animal: cat, dog, horse, cow, sheep, goat, fox, wolf, bear, lion, tiger, elephant, monkey, rabbit, mouse, bird, owl,
duck, hen, goose, frog, turtle, snake, squirrel, deer, donkey, camel, parrot, crow, eagle, hedgehog, kitten, puppy
relative: mother, father, sister, brother, aunt, uncle, grandmother, grandfather, cousin, daughter, son, wife,
husband, friend, best friend, neighbour, boss, teacher, old friend
person: man, woman, boy, girl, child, king, queen, prince, princess, stranger, neighbour, farmer, teacher, doctor,
sailor, soldier, baker, painter, singer, writer, student, judge, captain, giant, old man, old woman, young man,
young woman
look: big, small, little, old, new, long, short, heavy, light, round, broken, beautiful, strange, wooden, empty,
clean, dirty, simple, large, tiny, huge, bright, dark, pretty, ugly, plain, cheap, expensive, fine, lovely
temper: kind, brave, clever, quiet, gentle, proud, lazy, angry, friendly, honest, shy, curious, polite, wise, lonely,
happy, cheerful, patient, strong, tall, careful, famous, poor, rich
feeling: happy, sad, tired, hungry, angry, afraid, surprised, proud, lonely, excited, worried, calm, bored, glad,
sorry, cold, thirsty, nervous, ready, sure, pleased, grateful
verdict: good, bad, easy, hard, difficult, important, interesting, useful, dangerous, possible, impossible, wonderful,
terrible, necessary, boring, strange, beautiful, simple, fair, wrong
manner: slowly, quickly, quietly, carefully, suddenly, gently, loudly, happily, sadly, softly, politely, bravely,
calmly, angrily, patiently, proudly, together, alone, again
often: always, often, usually, sometimes, never, rarely, almost always
weather: sunny, cloudy, rainy, windy, cold, warm, hot, foggy, stormy, snowy, dry, wet
food: bread, cheese, soup, rice, fish, meat, cake, an apple, some fruit, a sandwich, pasta, salad, an egg, potatoes,
chicken, breakfast, lunch, dinner, a biscuit, some chocolate, ice cream, honey, pancakes, beans, a pear
drink: water, milk, tea, coffee, juice, a cup of tea, a glass of water, hot chocolate, lemonade, a cup of coffee
ingredient: flour, sugar, butter, salt, pepper, milk, onions, garlic, tomatoes, potatoes, carrots, beans, rice,
cheese, eggs, cream, honey, lemon juice, oil, mushrooms, apples, nuts, herbs
dish: soup, cake, bread, pie, stew, salad, sauce, curry, porridge
subject: music, history, science, art, mathematics, physics, biology, geography, cooking, chess, football, tennis,
swimming, painting, dancing, poetry, philosophy, gardening, photography
seat: mat, chair, sofa, bed, bench, floor, roof, wall, table, carpet, grass, rug, step, pillow, box, fence,
windowsill
hiding: under the bed, behind the door, in a drawer, on the roof, inside an old box, under a stone,
behind the curtain, at the bottom of the well, in the cellar, between two books, in the attic, under the table,
near the river
treasure: key, ring, letter, map, coin, book, lamp, box, watch, mirror, flute, drum, hat, coat, necklace, bell,
lantern, compass, picture, stone, seed, ball, kite, basket, umbrella, clock, knife, cup, rope, violin
worker: teacher, doctor, baker, farmer, driver, nurse, cook, judge, writer, painter, singer, pilot, sailor, student,
manager
unit: metres, kilometres, kilograms, litres, minutes, hours, days, weeks, years, dollars, euros, people, pages
transport: train, bus, car, boat, bicycle, plane, tram, taxi, ship
idea: love, time, work, money, life, the truth, music, friendship, freedom, peace, sleep, knowledge, health, hope,
patience
"""

_FACTS = """
capital: France=Paris, England=London, Germany=Berlin, Italy=Rome, Spain=Madrid, Austria=Vienna, Norway=Oslo,
Portugal=Lisbon, Greece=Athens, Ireland=Dublin, Poland=Warsaw, Sweden=Stockholm, Canada=Ottawa, Japan=Tokyo,
Egypt=Cairo, Peru=Lima, Finland=Helsinki, Denmark=Copenhagen, China=Beijing, Hungary=Budapest, Belgium=Brussels,
Kenya=Nairobi
opposite: big=small, hot=cold, old=new, fast=slow, high=low, long=short, light=dark, rich=poor, hard=soft, early=late,
open=closed, full=empty, clean=dirty, strong=weak, happy=sad, easy=difficult, near=far, wet=dry, loud=quiet,
deep=shallow, sweet=bitter, true=false, thick=thin, wide=narrow, first=last, left=right, up=down, day=night,
summer=winter, black=white, good=bad, question=answer, begin=end, buy=sell, give=take, push=pull, love=hate
coloured: the grass=green, snow=white, coal=black, the sky=blue, blood=red, milk=white, the sun=yellow,
chocolate=brown, a lemon=yellow, a tomato=red, an elephant=grey, a frog=green, the sea=blue, a carrot=orange,
salt=white
creature: cat=mammal=mice=houses and gardens=meow, dog=mammal=meat=houses with people=bark,
cow=mammal=grass=fields=moo, horse=mammal=grass and hay=stables=neigh, sheep=mammal=grass=hills=bleat,
lion=mammal=meat=the grasslands=roar, wolf=mammal=meat=forests=howl, bear=mammal=fish and berries=caves=growl,
owl=bird=mice=old trees=hoot, duck=bird=plants and snails=ponds=quack, eagle=bird=small animals=mountains=scream,
frog=amphibian=insects=ponds=croak, snake=reptile=small animals=warm places=hiss, bee=insect=nectar=hives=buzz,
mouse=mammal=seeds and cheese=holes=squeak
job: baker=bakes bread, farmer=grows food, teacher=works in a school, doctor=helps sick people, pilot=flies planes,
driver=drives a bus, writer=writes books, painter=paints pictures, singer=sings songs, nurse=takes care of patients,
builder=builds houses, cook=makes meals, judge=decides cases in court, scientist=does experiments,
sailor=works on a ship, programmer=writes software, gardener=looks after plants, tailor=makes clothes
tool: knife=cut bread, key=open a door, pen=write a letter, spoon=eat soup, broom=sweep the floor, lamp=light a room,
clock=tell the time, needle=sew a button, hammer=drive in a nail, saw=cut wood, map=find the way,
towel=dry your hands
barrier: suitcase=trophy, box=statue, bag=ball, drawer=book, garage=car, room=piano, envelope=letter, basket=melon
cause: it was raining=took an umbrella, it was cold=put on a coat, it was late=went home,
it was dark=turned on the light, the shop was closed=came back the next day, the bus was full=walked home,
the soup was too hot=waited a little, the door was locked=looked for the key, it was very noisy=closed the window,
the milk was sour=drank water
"""

_THEMES = """
kitchen.place: kitchen, house, restaurant, bakery
kitchen.thing: pot, pan, cup, plate, knife, spoon, oven, bowl, bottle, jar, apron, kettle, table, loaf
kitchen.do: cook {food}, bake a cake, make {drink}, wash the dishes, cut the bread, peel the potatoes, set the table,
eat {food}, drink {drink}, taste the soup, boil some water, clean the oven, break an egg, warm the milk
kitchen.worker: cook, baker, waiter, guest
park.place: park, garden, playground, square
park.thing: tree, flower, bench, ball, kite, leaf, pond, path, swing, gate, rose, branch, apple, bird
park.do: play with a ball, walk in the park, feed the ducks, climb a tree, fly a kite, sit on a bench,
run on the grass, pick some flowers, water the plants, look at the birds, rest under a tree, read in the shade,
have a picnic
park.worker: gardener, child, runner, neighbour
school.place: school, classroom, university, library
school.thing: book, pen, pencil, desk, page, lesson, map, question, answer, word, story, blackboard, exam, notebook
school.do: read a book, write a letter, learn {subject}, study {subject}, answer the question, ask a question,
draw a map, open the book, finish the homework, teach {subject}, listen to the teacher, pass the exam, turn the page,
speak {language}
school.worker: teacher, student, professor, pupil
market.place: market, shop, supermarket, bookshop
market.thing: basket, bag, coin, price, apple, shirt, shoe, hat, toy, bill, ticket, bottle, newspaper, melon
market.do: buy {food}, sell the {treasure}, pay the bill, count the money, carry the bags, choose a gift,
buy some shoes, look for a {treasure}, ask about the price, fill the basket, try on a hat, wait in line,
compare the prices
market.worker: seller, customer, farmer, shopkeeper
sea.place: beach, harbour, island, sea
sea.thing: boat, ship, fish, wave, net, shell, sail, rope, stone, anchor, lighthouse, bucket, storm, bridge
sea.do: swim in the sea, catch a fish, sail to the island, build a castle of sand, collect shells, mend the nets,
look at the waves, sit in the sun, row the boat, wait for the ship, dive into the water, watch the sunset
sea.worker: sailor, captain, fisherman, swimmer
forest.place: forest, hill, mountain, valley, cave
forest.thing: tree, path, river, stone, fire, tent, mushroom, leaf, nest, bear, fox, cabin, bridge, backpack
forest.do: walk through the forest, climb the hill, look for mushrooms, make a fire, cross the river, follow the path,
sleep in a tent, cut some wood, listen to the birds, drink from the stream, hide behind a tree, find the way
forest.worker: hunter, guide, traveller, forester
farm.place: farm, field, stable, village
farm.thing: cow, horse, hen, egg, cart, barn, fence, gate, haystack, tractor, apple tree, bucket, goat, plough
farm.do: milk the cow, feed the horses, collect the eggs, plant some seeds, ride a horse, work in the field,
open the gate, mend the fence, drive the tractor, pick apples, cut the grass, carry the hay, dig a hole
farm.worker: farmer, shepherd, boy, girl
office.place: office, bank, factory, meeting room
office.thing: letter, report, computer, phone, desk, plan, list, project, meeting, contract, number, file, email,
idea
office.do: write a report, call a customer, send an email, answer the phone, read the letter, plan the project,
go to the meeting, sign the contract, find a mistake, solve the problem, start a new job, check the numbers
office.worker: manager, engineer, lawyer, secretary
station.place: station, airport, hotel, city
station.thing: train, ticket, suitcase, passport, bus, map, platform, seat, bag, taxi, plane, window, clock, street
station.do: take the train, buy a ticket, pack a suitcase, travel to {city}, fly to {country}, wait for the bus,
visit the museum, miss the train, drive to {city}, ask for the way, carry the luggage, book a room, leave for {city}
station.worker: driver, passenger, traveller, conductor
hospital.place: hospital, clinic, pharmacy, waiting room
hospital.thing: bed, medicine, bandage, leg, arm, tooth, pill, nurse, blanket, window, cough, fever, hand, visitor
hospital.do: see a doctor, take the medicine, stay in bed, visit a friend, wash the hands, help the patient,
feel better, drink some tea, sleep for ten hours, call the nurse, wait for the doctor
hospital.worker: doctor, nurse, patient, dentist
stage.place: theatre, museum, concert hall, cinema
stage.thing: song, piano, violin, film, picture, stage, ticket, seat, dance, story, guitar, curtain, statue, concert
stage.do: play the piano, sing a song, watch a film, paint a picture, dance all night, listen to music, tell a story,
play the violin, learn a new song, draw a face, look at the pictures, take a photograph, clap the hands
stage.worker: singer, painter, actor, musician
home.place: house, room, living room, bedroom
home.thing: door, window, chair, bed, lamp, blanket, clock, key, mirror, sofa, picture, radio, carpet, candle
home.do: clean the room, open the window, close the door, sleep on the sofa, turn on the light, paint the wall,
sweep the floor, make the bed, light a candle, repair the clock, watch television, write in a diary, wash the clothes,
invite some friends, move the table
home.worker: guest, neighbour, plumber, landlord
castle.place: castle, palace, tower, kingdom
castle.thing: crown, sword, ring, dragon, horse, door, wall, treasure, bell, throne, feast, secret, map, key
castle.do: guard the gate, ride to the castle, find the treasure, fight the dragon, ring the bell, keep the secret,
wear the crown, help the king, open the secret door, climb the tower, save the princess, tell the truth
castle.worker: king, queen, knight, prince
computer.place: laboratory, computer room, data centre, office
computer.thing: computer, program, model, file, network, screen, error, number, layer, head, token, machine, test,
line
computer.do: write a program, train a model, fix the error, read the file, run the test, press the key, copy the data,
measure the time, change the code, start the machine, look at the screen, compare the results, print the page
computer.worker: programmer, engineer, scientist, researcher
science.place: laboratory, observatory, university, museum
science.thing: star, planet, moon, experiment, telescope, theory, light, result, number, map, sample, instrument, sun,
idea
science.do: look at the stars, measure the temperature, study the planets, test a theory, repeat the experiment,
write down the results, discover a new star, explain the idea, collect samples, use a telescope, count the stars
science.worker: scientist, astronomer, student, assistant
sport.place: stadium, gym, swimming pool, sports hall
sport.thing: ball, team, game, goal, race, match, shoe, medal, net, bicycle, coach, point, prize, whistle
sport.do: play football, win the race, lose the game, ride a bicycle, throw the ball, run ten kilometres,
kick the ball, train every day, swim in the pool, play tennis, score a goal, watch the match, join the team
sport.worker: player, coach, runner, swimmer
"""


def _theme_table() -> dict[str, dict[str, tuple[str, ...]]]:
    """Group the entries `theme.category` by theme."""
    themes: dict[str, dict[str, tuple[str, ...]]] = {}
    for entry, items in parse_words(_THEMES).items():
        theme, category = entry.split(".")
        themes.setdefault(theme, {})[category] = items
    return themes


THEMES = _theme_table()
"""What belongs together: for every theme its places, things, activities and people."""

WORDS: dict[str, tuple[str, ...]] = {
    **parse_words(_GENERAL),
    **parse_words(_FACTS),
    "digit": tuple(str(value) for value in range(2, 10)),
    "count": tuple(str(value) for value in range(10, 100)),
    "age": tuple(str(value) for value in range(6, 90)),
    "year": tuple(str(value) for value in range(1890, 2031)),
    "degrees": tuple(str(value) for value in range(3, 36)),
    "hour": tuple(str(value) for value in range(1, 13)),
    "minute": tuple(f"{value:02d}" for value in range(0, 60, 5)),
}
WORDS["sum"] = tuple(f"{a}={b}={a + b}={WORDS['digit'][a % 8]}" for a in range(1, 21) for b in range(1, 21))
