//! The commands of Redis that Duality's services use, without I/O: each client's words in, and the
//! bytes for each client out. Replies are those of Redis 7.0, byte for byte, errors among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use redis_protocol::resp2::encode::encode;
use redis_protocol::resp2::types::{OwnedFrame as Reply, Resp2Frame as _};

/// The databases of a Redis.
const DATABASES: usize = 16;
/// The bytes of a command's words that an error repeats.
const REPEATED: usize = 128;

const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// What a Redis keeps.
type Data = [BTreeMap<Vec<u8>, Value>; DATABASES];

enum Value {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// A Redis: its data and its clients.
#[derive(Default)]
pub(super) struct Redis {
    data: Data,
    clients: BTreeMap<u64, Client>,
    next: u64,
    /// How often it has started: each process of a Redis has a name of its own.
    starts: u64,
}

#[derive(Default)]
struct Client {
    database: usize,
    channels: BTreeSet<Vec<u8>>,
    output: Vec<u8>,
}

type Words<'w> = &'w [Vec<u8>];

/// A reply, or the text of an error.
type Answer = Result<Reply, String>;

/// A command: its name, the least and the largest number of its words, and what it does.
struct Command {
    name: &'static str,
    words: (usize, usize),
    run: fn(&mut Redis, u64, Words<'_>) -> Answer,
}

const MANY: usize = usize::MAX;

/// All of them. AUTH is absent: no simulated Redis has a password.
#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    Command { name: "get", words: (2, 2), run: Redis::get },
    Command { name: "getdel", words: (2, 2), run: Redis::take },
    Command { name: "hget", words: (3, 3), run: Redis::get_field },
    Command { name: "hset", words: (4, MANY), run: Redis::set_fields },
    Command { name: "incr", words: (2, 2), run: Redis::increment },
    Command { name: "info", words: (1, MANY), run: Redis::describe },
    Command { name: "lpush", words: (3, MANY), run: Redis::push },
    Command { name: "lrange", words: (4, 4), run: Redis::range },
    Command { name: "ping", words: (1, 2), run: Redis::ping },
    Command { name: "publish", words: (3, 3), run: Redis::publish },
    Command { name: "select", words: (2, 2), run: Redis::select },
    Command { name: "set", words: (3, MANY), run: Redis::set },
    Command { name: "subscribe", words: (2, MANY), run: Redis::subscribe },
];

impl Redis {
    /// Starts without clients, and with the data of before if `keeps` is set.
    pub(super) fn start(&mut self, keeps: bool) {
        self.clients.clear();
        self.starts += 1;
        if !keeps {
            self.data = Data::default();
        }
    }

    /// A client has come. Returns its number.
    pub(super) fn join(&mut self) -> u64 {
        self.next += 1;
        self.clients.insert(self.next, Client::default());
        self.next
    }

    pub(super) fn leave(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// The bytes that a client has to get. `None` if it has left.
    pub(super) fn take_output(&mut self, client: u64) -> Option<Vec<u8>> {
        self.clients.get_mut(&client).map(|client| std::mem::take(&mut client.output))
    }

    /// The clients that have bytes to get, and how many.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u64, usize)> {
        let waiting = self.clients.iter().filter(|(_, client)| !client.output.is_empty());
        waiting.map(|(number, client)| (*number, client.output.len()))
    }

    /// Executes a command of a client.
    pub(super) fn execute(&mut self, client: u64, words: Words<'_>) {
        let answer = self.answer(client, words);
        self.tell(client, &answer.unwrap_or_else(Reply::Error));
    }

    fn answer(&mut self, client: u64, words: Words<'_>) -> Answer {
        let Some(first) = words.first() else { return Err("ERR an empty command".to_owned()) };
        let found = COMMANDS.iter().find(|one| first.eq_ignore_ascii_case(one.name.as_bytes()));
        let Some(Command { name, words: (least, most), run }) = found else {
            return Err(unknown(words));
        };
        if !(*least..=*most).contains(&words.len()) {
            return Err(wrong_number(name));
        }
        if !self.of(client).channels.is_empty() && !matches!(*name, "subscribe" | "ping") {
            return Err(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ));
        }
        run(self, client, words)
    }

    fn tell(&mut self, client: u64, reply: &Reply) {
        append(&mut self.of(client).output, reply);
    }

    fn of(&mut self, client: u64) -> &mut Client {
        self.clients.entry(client).or_default()
    }

    fn keys(&mut self, client: u64) -> &mut BTreeMap<Vec<u8>, Value> {
        let database = self.of(client).database;
        &mut self.data[database]
    }

    // The commands.

    fn ping(&mut self, client: u64, words: Words<'_>) -> Answer {
        let text = words.get(1);
        if !self.of(client).channels.is_empty() {
            let text = text.cloned().unwrap_or_default();
            return Ok(Reply::Array(vec![bulk("pong"), Reply::BulkString(text)]));
        }
        Ok(text.map_or_else(|| simple("PONG"), |text| Reply::BulkString(text.clone())))
    }

    /// INFO, whatever section it asks for: which process this is.
    fn describe(&mut self, _client: u64, _words: Words<'_>) -> Answer {
        let starts = self.starts;
        Ok(bulk(&format!("# Server\r\nredis_version:7.0.15\r\nrun_id:{starts:040x}\r\n")))
    }

    fn select(&mut self, client: u64, words: Words<'_>) -> Answer {
        let number = integer(&words[1]).ok_or(NO_INTEGER)?;
        let number = i32::try_from(number).map_err(|_| {
            format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX)
        })?;
        let number = usize::try_from(number).ok();
        let out_of_range = "ERR DB index is out of range";
        self.of(client).database = number.filter(|one| *one < DATABASES).ok_or(out_of_range)?;
        Ok(simple("OK"))
    }

    fn get(&mut self, client: u64, words: Words<'_>) -> Answer {
        match self.keys(client).get(&words[1]) {
            None => Ok(Reply::Null),
            Some(Value::Text(text)) => Ok(Reply::BulkString(text.clone())),
            Some(_) => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn take(&mut self, client: u64, words: Words<'_>) -> Answer {
        let text = self.get(client, words)?;
        self.keys(client).remove(&words[1]);
        Ok(text)
    }

    /// SET, and SET with NX.
    fn set(&mut self, client: u64, words: Words<'_>) -> Answer {
        let (options, keys) = (&words[3..], self.keys(client));
        if !options.iter().all(|option| option.eq_ignore_ascii_case(b"NX")) {
            return Err("ERR syntax error".to_owned());
        }
        if !options.is_empty() && keys.contains_key(&words[1]) {
            return Ok(Reply::Null);
        }
        keys.insert(words[1].clone(), Value::Text(words[2].clone()));
        Ok(simple("OK"))
    }

    fn increment(&mut self, client: u64, words: Words<'_>) -> Answer {
        let keys = self.keys(client);
        let number = match keys.get(&words[1]) {
            None => 0,
            Some(Value::Text(digits)) => integer(digits).ok_or(NO_INTEGER)?,
            Some(_) => return Err(WRONG_TYPE.to_owned()),
        };
        let overflow = "ERR increment or decrement would overflow";
        let number = number.checked_add(1).ok_or(overflow)?;
        keys.insert(words[1].clone(), Value::Text(number.to_string().into_bytes()));
        Ok(Reply::Integer(number))
    }

    fn push(&mut self, client: u64, words: Words<'_>) -> Answer {
        let empty = || Value::List(VecDeque::new());
        match self.keys(client).entry(words[1].clone()).or_insert_with(empty) {
            Value::List(list) => {
                words[2..].iter().for_each(|element| list.push_front(element.clone()));
                Ok(Reply::Integer(list.len() as i64))
            }
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn range(&mut self, client: u64, words: Words<'_>) -> Answer {
        let first = integer(&words[2]).ok_or(NO_INTEGER)?;
        let last = integer(&words[3]).ok_or(NO_INTEGER)?;
        let list = match self.keys(client).get(&words[1]) {
            None => return Ok(Reply::Array(vec![])),
            Some(Value::List(list)) => list,
            Some(_) => return Err(WRONG_TYPE.to_owned()),
        };
        // Negative numbers count from the end.
        let length = list.len() as i64;
        let place = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
        let (first, last) = (place(first).max(0), place(last));
        let chosen = list.iter().zip(0..).filter(|(_, index)| (first..=last).contains(index));
        let chosen = chosen.map(|(element, _)| Reply::BulkString(element.clone()));
        Ok(Reply::Array(chosen.collect()))
    }

    fn get_field(&mut self, client: u64, words: Words<'_>) -> Answer {
        match self.keys(client).get(&words[1]) {
            None => Ok(Reply::Null),
            Some(Value::Hash(fields)) => {
                Ok(fields.get(&words[2]).map_or(Reply::Null, |one| Reply::BulkString(one.clone())))
            }
            Some(_) => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn set_fields(&mut self, client: u64, words: Words<'_>) -> Answer {
        let (pairs, []) = words[2..].as_chunks::<2>() else { return Err(wrong_number("hset")) };
        let empty = || Value::Hash(BTreeMap::new());
        match self.keys(client).entry(words[1].clone()).or_insert_with(empty) {
            Value::Hash(fields) => {
                let before = fields.len();
                fields.extend(pairs.iter().cloned().map(|[field, value]| (field, value)));
                Ok(Reply::Integer((fields.len() - before) as i64))
            }
            _ => Err(WRONG_TYPE.to_owned()),
        }
    }

    fn publish(&mut self, _client: u64, words: Words<'_>) -> Answer {
        let hears = |client: &Client| client.channels.contains(&words[1]);
        let subscribers = self.clients.iter().filter(|(_, client)| hears(client));
        let subscribers: Vec<u64> = subscribers.map(|(number, _)| *number).collect();
        let [channel, message] = [&words[1], &words[2]].map(|word| Reply::BulkString(word.clone()));
        let message = Reply::Array(vec![bulk("message"), channel, message]);
        subscribers.iter().for_each(|subscriber| self.tell(*subscriber, &message));
        Ok(Reply::Integer(subscribers.len() as i64))
    }

    /// Each channel has a reply. The last one is the answer.
    fn subscribe(&mut self, client: u64, words: Words<'_>) -> Answer {
        let mut subscribed = |channel: &Vec<u8>| {
            self.of(client).channels.insert(channel.clone());
            let count = Reply::Integer(self.of(client).channels.len() as i64);
            Reply::Array(vec![bulk("subscribe"), Reply::BulkString(channel.clone()), count])
        };
        let mut replies: Vec<Reply> = words[1..].iter().map(&mut subscribed).collect();
        let last = replies.pop().ok_or_else(|| wrong_number("subscribe"))?;
        replies.iter().for_each(|reply| self.tell(client, reply));
        Ok(last)
    }
}

/// Appends a frame as bytes.
pub(super) fn append(output: &mut Vec<u8>, frame: &Reply) {
    let begin = output.len();
    output.resize(begin + frame.encode_len(false), 0);
    encode(&mut output[begin..], frame, false).expect("there is as much room as it needs");
}

fn bulk(text: &str) -> Reply {
    Reply::BulkString(text.into())
}

fn simple(text: &str) -> Reply {
    Reply::SimpleString(text.into())
}

fn wrong_number(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn unknown(words: Words<'_>) -> String {
    let first = |word: &[u8], most: usize| {
        String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned()
    };
    let mut repeated = String::new();
    for word in &words[1..] {
        if repeated.len() >= REPEATED {
            break;
        }
        repeated += &format!("'{}' ", first(word, REPEATED - repeated.len()));
    }
    let name = first(&words[0], REPEATED);
    format!("ERR unknown command '{name}', with args beginning with: {repeated}")
}

/// A number as Redis writes it: without a plus sign, spaces or zeros before it.
fn integer(digits: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == digits).then_some(number)
}
