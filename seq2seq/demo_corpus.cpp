#include "seq2seq/demo_corpus.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "kernels/error.h"
#include "seq2seq/random.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

using std::string;

enum Gender { masculine, feminine, neuter, plural };  // German has one declension for the plural of all three
enum Case { nominative, accusative, dative };
enum Determiner { definite, indefinite, two, three };
enum Tense { present, perfect, can, want, must };

// What a word stands for, so that nobody reads an apple.
enum Kind : unsigned {
  person = 1,
  animal = 2,
  toy = 4,
  fruit = 8,
  cake = 16,
  reading = 32,
  clothes = 64,
  hat = 128,
  flower = 256,
  umbrella = 512,
  thing = toy | fruit | cake | reading | clothes | hat | flower | umbrella,
  portable = thing & ~(clothes | hat)
};

struct Noun {
  Gender gender;
  unsigned kind;
  const char *german, *german_plural;  // plural "": used in the singular only
  const char *english, *english_plural;
  bool weak = false;  // -n in all cases but the nominative
};

constexpr Noun nouns[] = {
    {masculine, person, "mann", "männer", "man", "men"},
    {feminine, person, "frau", "frauen", "woman", "women"},
    {masculine, person, "junge", "jungen", "boy", "boys", true},
    {neuter, person, "mädchen", "mädchen", "girl", "girls"},
    {neuter, person, "kind", "kinder", "child", "children"},
    {masculine, person, "fußballspieler", "fußballspieler", "soccer player", "soccer players"},
    {masculine, person, "feuerwehrmann", "feuerwehrmänner", "firefighter", "firefighters"},
    {masculine, animal, "hund", "hunde", "dog", "dogs"},
    {feminine, animal, "katze", "katzen", "cat", "cats"},
    {masculine, toy, "ball", "bälle", "ball", "balls"},
    {masculine, fruit, "apfel", "äpfel", "apple", "apples"},
    {masculine, cake, "kuchen", "", "cake", ""},
    {neuter, reading, "buch", "bücher", "book", "books"},
    {feminine, reading, "zeitung", "", "newspaper", ""},
    {masculine, reading, "brief", "", "letter", ""},
    {feminine, clothes, "jacke", "", "jacket", ""},
    {masculine, clothes, "badeanzug", "", "swimsuit", ""},
    {neuter, clothes, "hemd", "", "shirt", ""},
    {masculine, hat, "hut", "", "hat", ""},
    {feminine, flower, "blume", "blumen", "flower", "flowers"},
    {masculine, umbrella, "regenschirm", "", "umbrella", ""},
};

struct Adjective {
  unsigned kind;       // what it may be said of
  const char* german;  // the stem
  const char* english;
};

constexpr Adjective adjectives[] = {
    {toy | reading | clothes | hat | flower | umbrella, "rot", "red"},
    {toy | reading | clothes | hat | flower | umbrella, "blau", "blue"},
    {person | animal | toy | reading | clothes | hat | umbrella, "alt", "old"},
    {toy | reading | clothes | hat | umbrella, "neu", "new"},
    {person | animal | thing, "klein", "small"},
    {person | animal | thing, "groß", "big"},
    {person | animal, "müd", "tired"},
    {person, "glücklich", "happy"},
};

// Where something happens, and (accusative) where it goes to.
enum PlaceName : unsigned {
  park = 1,
  garden = 2,
  beach = 4,
  street = 8,
  kitchen = 16,
  house = 32,
  bridge = 64,
  bench = 128,
  lake = 256,
  grounds = park | garden | beach,
  outdoors = grounds | street | house | bridge
};

struct Place {
  unsigned name;
  const char* preposition;
  Gender gender;
  const char* german;
  const char *english, *towards;  // prepositions; towards nullptr: nothing goes there
  const char* english_noun;
};

constexpr Place places[] = {
    {park, "in", masculine, "park", "in", "into", "park"},
    {garden, "in", masculine, "garten", "in", "into", "garden"},
    {beach, "an", masculine, "strand", "on", nullptr, "beach"},
    {street, "auf", feminine, "straße", "on", "onto", "street"},
    {kitchen, "in", feminine, "küche", "in", "into", "kitchen"},
    {house, "vor", neuter, "haus", "in front of", nullptr, "house"},
    {bridge, "unter", feminine, "brücke", "under", nullptr, "bridge"},
    {bench, "auf", feminine, "bank", "on", "onto", "bench"},
    {lake, "in", masculine, "see", "in", "into", "lake"},
};

enum VerbFlag : unsigned {
  dative_object = 1,  // its object is in the dative (helps)
  receiver = 2,       // it has another one, a person in the dative (gives)
  with_sein = 4       // its perfect is formed with "ist", not "hat"
};

struct Verb {
  unsigned subject, object;  // kinds; object 0: none
  unsigned at, towards;      // places
  const char *german, *german_plural, *participle;
  const char *english, *english_plural, *past;
  unsigned flags = 0;
  const char *prefix = "", *particle = "";
};

constexpr unsigned being = person | animal;
constexpr Verb verbs[] = {
    {being, 0, grounds | bench | kitchen, 0, "schläft", "schlafen", "geschlafen", "sleeps", "sleep", "slept"},
    {being, 0, grounds | bench | kitchen, 0, "sitzt", "sitzen", "gesessen", "sits", "sit", "sat"},
    {person, 0, park | beach | street | kitchen, 0, "tanzt", "tanzen", "getanzt", "dances", "dance", "danced"},
    {person, 0, grounds, 0, "lacht", "lachen", "gelacht", "laughs", "laugh", "laughed"},
    {being, 0, grounds, park | garden | street | kitchen, "läuft", "laufen", "gelaufen", "runs", "run", "ran", with_sein},
    {being, 0, 0, lake | bench, "springt", "springen", "gesprungen", "jumps", "jump", "jumped", with_sein},
    {person, toy | fruit, grounds | street, 0, "wirft", "werfen", "geworfen", "throws", "throw", "threw"},
    {being, toy, grounds | street, 0, "fängt", "fangen", "gefangen", "catches", "catch", "caught"},
    {person, portable, outdoors, 0, "trägt", "tragen", "getragen", "carries", "carry", "carried"},
    {person, clothes | hat, outdoors, 0, "trägt", "tragen", "getragen", "wears", "wear", "wore"},
    {person, reading, grounds | kitchen, 0, "liest", "lesen", "gelesen", "reads", "read", "read"},
    {person, fruit | cake, grounds | kitchen, 0, "isst", "essen", "gegessen", "eats", "eat", "ate"},
    {person, thing, 0, 0, "kauft", "kaufen", "gekauft", "buys", "buy", "bought"},
    {being, being | thing, outdoors, 0, "sieht", "sehen", "gesehen", "sees", "see", "saw"},
    {person, being, 0, 0, "hilft", "helfen", "geholfen", "helps", "help", "helped", dative_object},
    {being, being, 0, 0, "folgt", "folgen", "gefolgt", "follows", "follow", "followed", dative_object | with_sein},
    {person, portable, park | kitchen, 0, "gibt", "geben", "gegeben", "gives", "give", "gave", receiver},
    {person, toy | fruit | reading | hat | flower, outdoors, 0, "hebt", "heben", "aufgehoben", "picks", "pick", "picked", 0,
     "auf", "up"},
    {person, clothes, beach | garden, 0, "zieht", "ziehen", "angezogen", "puts", "put", "put", 0, "an", "on"},
    {person, reading | cake | flower | fruit, park | kitchen, 0, "wirft", "werfen", "weggeworfen", "throws", "throw", "threw",
     0, "weg", "away"},
};

struct Modal {
  const char *german, *german_plural, *english, *english_plural;
};
constexpr Modal modals[] = {
    {"kann", "können", "can", "can"}, {"will", "wollen", "wants to", "want to"}, {"muss", "müssen", "must", "must"}};

struct Time {
  const char *german, *english;
};

// The article, or what stands for it; the relative pronoun of a subject is the nominative of the definite one.
constexpr const char* definite_article[3][4] = {
    {"der", "die", "das", "die"}, {"den", "die", "das", "die"}, {"dem", "der", "dem", "den"}};
constexpr const char* indefinite_article[3][3] = {
    {"ein", "eine", "ein"}, {"einen", "eine", "ein"}, {"einem", "einer", "einem"}};

string adjective_ending(Determiner determiner, Gender gender, Case in) {
  if (in == dative) return "en";
  if (gender == plural) return determiner == definite ? "en" : "e";
  if (gender == masculine && in == accusative) return "en";
  if (determiner == definite || gender == feminine) return "e";
  return gender == masculine ? "er" : "es";
}

// Pieces joined by single blanks, empty ones left out.
template <class... Text>
string words(const Text&... pieces) {
  string all;
  const auto add = [&](const string& piece) {
    if (!piece.empty()) all += (all.empty() ? "" : " ") + piece;
  };
  (add(pieces), ...);
  return all;
}

struct Pair {
  string german, english;
};

struct NounPhrase {
  const Noun* noun = nullptr;
  const Adjective* adjective = nullptr;
  Determiner determiner = definite;
  bool many = false;
  Pair suffix = {};  // what follows the noun: "mit dem hut", a relative clause

  Pair in(Case which) const {
    const Gender gender = many ? plural : noun->gender;
    string german, english;
    if (determiner == definite) {
      german = definite_article[which][gender];
      english = "the";
    } else if (determiner == indefinite) {
      german = indefinite_article[which][gender];
      const string next = adjective ? adjective->english : noun->english;
      english = string("aeiou").find(next[0]) == string::npos ? "a" : "an";
    } else {
      german = determiner == two ? "zwei" : "drei";
      english = determiner == two ? "two" : "three";
    }
    if (adjective) {
      german += string(" ") + adjective->german + adjective_ending(determiner, gender, which);
      english += string(" ") + adjective->english;
    }
    string name = many ? noun->german_plural : noun->german;
    if (noun->weak && !many && which != nominative) name += "n";
    return {words(german, name, suffix.german), words(english, many ? noun->english_plural : noun->english, suffix.english)};
  }
};

struct Clause {
  NounPhrase subject;
  const Verb* verb = nullptr;
  const Adjective* state = nullptr;  // "ist müde", instead of a verb
  Tense tense = present;
  NounPhrase object, taker;
  Pair time, place;
  enum class Front { subject, time, place } front = Front::subject;

  // The conjugated verb, and what closes the clause: infinitive, participle, prefix.
  Pair verb_parts() const {
    const bool many = subject.many;
    if (state) {
      const string closing = string(state->german) == "müd" ? "müde" : state->german;
      return {tense == perfect ? (many ? "waren" : "war") : (many ? "sind" : "ist"), closing};
    }
    if (tense == present) return {many ? verb->german_plural : verb->german, verb->prefix};
    if (tense == perfect) {
      if (verb->flags & with_sein) return {many ? "sind" : "ist", verb->participle};
      return {many ? "haben" : "hat", verb->participle};
    }
    const Modal& modal = modals[tense - can];
    return {many ? modal.german_plural : modal.german, string(verb->prefix) + verb->german_plural};
  }

  // Between the verb's two parts.
  string middle() const {
    const string object_words = object.noun ? object.in(verb->flags & dative_object ? dative : accusative).german : "";
    return words(front == Front::time ? "" : time.german, taker.noun ? taker.in(dative).german : "",
                 front == Front::place ? "" : place.german, object_words);
  }

  string german_main() const {
    const auto [finite, closing] = verb_parts();
    const string who = subject.in(nominative).german;
    if (front == Front::subject) return words(who, finite, middle(), closing);
    return words(front == Front::time ? time.german : place.german, finite, who, middle(), closing);
  }

  // After a subordinate clause the verb comes first.
  string german_verb_first() const {
    const auto [finite, closing] = verb_parts();
    return words(finite, subject.in(nominative).german, middle(), closing);
  }

  // Without the subject after a relative pronoun.
  string german_subordinate(bool with_subject = true) const {
    const auto [finite, closing] = verb_parts();
    const bool one_word = !state && tense == present;  // aufhebt
    return words(with_subject ? subject.in(nominative).german : "", middle(),
                 one_word ? closing + finite : words(closing, finite));
  }

  string english(bool with_subject = true) const {
    const bool many = subject.many;
    string verb_words;
    if (state) {
      verb_words = words(tense == perfect ? (many ? "were" : "was") : (many ? "are" : "is"), state->english);
    } else if (tense == present) {
      verb_words = words(many ? verb->english_plural : verb->english, verb->particle);
    } else if (tense == perfect) {
      verb_words = words(verb->past, verb->particle);
    } else {
      const Modal& modal = modals[tense - can];
      verb_words = words(many ? modal.english_plural : modal.english, verb->english_plural, verb->particle);
    }
    const string fronted = front == Front::time ? time.english : front == Front::place ? place.english : "";
    return words(fronted, with_subject ? subject.in(nominative).english : "", verb_words,
                 taker.noun ? taker.in(dative).english : "", object.noun ? object.in(accusative).english : "",
                 front == Front::place ? "" : place.english, front == Front::time ? "" : time.english);
  }
};

class Grammar {
 public:
  explicit Grammar(u64 seed) : random_(seed) {}

  Pair sentence() {
    const u64 dice = random_.below(100);
    if (dice < 35) return ended(simple());
    if (dice < 60) return ended(fronted());
    if (dice < 75) return ended(with_reason());
    if (dice < 90) return ended(with_condition());
    return ended(with_relative_clause());
  }

 private:
  bool chance(u64 percent) { return random_.below(100) < percent; }

  template <class T, std::size_t n, class Fits>
  const T* choose(const T (&all)[n], Fits&& fits) {
    const T* chosen;
    do {
      chosen = &all[random_.below(n)];
    } while (!fits(*chosen));
    return chosen;
  }

  NounPhrase noun_phrase(unsigned kind, u64 percent_plural, u64 percent_adjective, const Noun* other_than) {
    NounPhrase phrase;
    phrase.noun = choose(nouns, [&](const Noun& noun) { return (noun.kind & kind) && &noun != other_than; });
    phrase.many = *phrase.noun->german_plural && chance(percent_plural);
    if (phrase.many) {
      phrase.determiner = chance(50) ? definite : chance(50) ? two : three;
    } else {
      phrase.determiner = chance(60) ? definite : indefinite;
    }
    if (chance(percent_adjective)) {
      phrase.adjective = choose(adjectives, [&](const Adjective& adjective) { return adjective.kind & phrase.noun->kind; });
    }
    return phrase;
  }

  Pair place(unsigned names, bool towards) {
    const Place& place = *choose(places, [&](const Place& p) { return p.name & names; });
    string german = words(place.preposition, definite_article[towards ? accusative : dative][place.gender]);
    if (german == "in dem") german = "im";
    if (german == "an dem") german = "am";
    return {words(german, place.german), words(towards ? place.towards : place.english, "the", place.english_noun)};
  }

  Pair time(Tense tense) {
    if (tense == perfect) return {"gestern", "yesterday"};
    if (chance(50)) return {"heute", "today"};
    if (tense == present) return {"jetzt", "now"};
    return {"morgen", "tomorrow"};
  }

  Tense any_tense() {
    if (chance(45)) return present;
    return chance(50) ? perfect : static_cast<Tense>(can + random_.below(3));
  }

  // percent: how often time, place and adjectives are there.
  Clause clause(Tense tense, u64 percent, const Noun* other_than = nullptr) {
    Clause clause;
    clause.tense = tense;
    clause.subject = noun_phrase(being, 25, percent, other_than);
    if (chance(8) && tense <= perfect) {
      const unsigned kind = clause.subject.noun->kind;
      clause.state = choose(adjectives, [&](const Adjective& a) { return (a.kind & kind) && !(a.kind & ~being); });
      clause.subject.adjective = nullptr;
    } else {
      clause.verb = choose(verbs, [&](const Verb& verb) { return verb.subject & clause.subject.noun->kind; });
      add_objects(clause, percent);
    }
    if (chance(percent)) clause.time = time(tense);
    return clause;
  }

  void add_objects(Clause& clause, u64 percent) {
    const Verb& verb = *clause.verb;
    const Noun* subject = clause.subject.noun;
    if (verb.object) clause.object = noun_phrase(verb.object, verb.flags & dative_object ? 0 : 20, percent, subject);
    if (verb.flags & receiver) clause.taker = noun_phrase(person, 0, 0, subject);
    const bool always = verb.towards && !verb.at;
    if (verb.towards && (always || chance(50))) {
      clause.place = place(verb.towards, true);
    } else if (verb.at && chance(verb.object ? percent : 60)) {
      clause.place = place(verb.at, false);
    }
  }

  Pair simple() {
    Clause one = clause(any_tense(), 30);
    if (!one.subject.adjective && one.verb && (one.subject.noun->kind & person) && chance(20)) {
      NounPhrase with = noun_phrase(hat | umbrella | flower, 0, 50, one.object.noun);
      const Pair dative_words = with.in(dative);
      one.subject.suffix = {words("mit", dative_words.german), words("with", dative_words.english)};
    }
    return {one.german_main(), one.english()};
  }

  Pair fronted() {
    Clause one = clause(any_tense(), 30);
    const bool can_front_place = one.verb && one.verb->at && !one.verb->towards;
    if (can_front_place && chance(40)) {
      one.place = place(one.verb->at, false);
      one.front = Clause::Front::place;
    } else {
      if (one.time.german.empty()) one.time = time(one.tense);
      one.front = Clause::Front::time;
    }
    return {one.german_main(), one.english()};
  }

  // ", weil ..." in any tense.
  Pair with_reason() {
    const Tense tense = any_tense();
    const Clause main = clause(tense, 10);
    const Clause reason = clause(tense, 15, main.subject.noun);
    return {words(main.german_main(), ", weil", reason.german_subordinate()),
            words(main.english(), "because", reason.english())};
  }

  // "wenn" and "während", before or after the main clause.
  Pair with_condition() {
    const Clause main = clause(present, 10);
    Clause condition = clause(present, 10, main.subject.noun);
    condition.time = {};
    const Pair word = chance(50) ? Pair{"wenn", "when"} : Pair{"während", "while"};
    const Pair subordinate = {words(word.german, condition.german_subordinate()), words(word.english, condition.english())};
    if (chance(50)) return {words(main.german_main(), ",", subordinate.german), words(main.english(), subordinate.english)};
    return {words(subordinate.german, ",", main.german_verb_first()), words(subordinate.english, ",", main.english())};
  }

  Pair with_relative_clause() {
    Clause main = clause(any_tense(), 10);
    Clause relative = clause(present, 10);
    while (!relative.verb || relative.verb == main.verb || !(relative.verb->subject & main.subject.noun->kind) ||
           relative.object.noun == main.subject.noun || relative.taker.noun == main.subject.noun) {
      relative = clause(present, 10);
    }
    relative.subject.many = main.subject.many;
    const Gender gender = main.subject.many ? plural : main.subject.noun->gender;
    const bool animal_subject = main.subject.noun->kind == animal;
    main.subject.suffix = {words(",", definite_article[nominative][gender], relative.german_subordinate(false), ","),
                           words(animal_subject ? "that" : "who", relative.english(false))};
    return {main.german_main(), main.english()};
  }

  static Pair ended(const Pair& sentence) { return {sentence.german + " .", sentence.english + " ."}; }

  SplitMix64 random_;
};

}  // namespace

DemoCorpus make_demo_corpus(u64 seed, i64 pairs, i64 valid, i64 test) {
  Grammar grammar(seed);
  std::unordered_set<string> seen;
  std::array<std::unordered_map<string, i64>, 2> counts;  // of the words in train
  const auto known = [&](const std::vector<string>& sentence, int side) {
    return std::all_of(sentence.begin(), sentence.end(), [&](const string& word) { return counts[side][word] >= 2; });
  };
  const auto fill = [&](std::vector<SentencePair>& part, i64 size, bool known_words_only) {
    for (i64 attempts = 100 * size + 1000; static_cast<i64>(part.size()) < size; --attempts) {
      if (attempts == 0)
        throw_error("[demo corpus] {} training pairs are too few for {} and {} unseen ones", pairs, valid, test);
      const Pair text = grammar.sentence();
      SentencePair pair{split_whitespace(text.german), split_whitespace(text.english)};
      if (known_words_only && !(known(pair.source, 0) && known(pair.target, 1))) continue;
      if (seen.contains(text.german) || seen.contains(text.english)) continue;
      seen.insert(text.german);
      seen.insert(text.english);
      part.push_back(std::move(pair));
    }
  };
  DemoCorpus corpus;
  fill(corpus.train, pairs, false);
  for (const SentencePair& pair : corpus.train) {
    for (const string& word : pair.source) ++counts[0][word];
    for (const string& word : pair.target) ++counts[1][word];
  }
  fill(corpus.valid, valid, true);
  fill(corpus.test, test, true);
  return corpus;
}

}  // namespace seqgrad::seq2seq
