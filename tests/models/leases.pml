/*
 * Leases of a near cache: no local read returns a value older than the bound.
 *
 * One key, on servers that work in turns. In a turn, a server executes writes,
 * fetches and PINGs, in any order; at its end it sends PONGs first, and then
 * that the key was written. The near cache handles what a connection brings in
 * its order, at any later time. The answer to PING n certifies what PING n - 1
 * would have, and extends the lease of that session to L after that one was
 * sent.
 *
 * A load notes the session of the server that it asks, then the server executes
 * the fetch, if the key is its own, and at last the load stores what it found,
 * unless it was superseded. A reader notes how many leases have been published,
 * then reads the entry, and then the lease of its session. Connections are lost,
 * and come back as new sessions; the slot of the key moves from one server to
 * the other, with the key, if there is one. That a key is absent is known for L
 * and has no session, as nobody tells of a key that is new where its slot has
 * moved.
 *
 * Left out: failover, several keys, local TTLs, joined loads, own writes.
 *
 * tests/models/check defines SERVERS, FIRST and WRITES, the first and the last
 * version, the last time TICKS, and how many MOVES, LOSSES and PINGS there may
 * be. It may define
 * FAULT  1  a PONG certifies what its own PING would have
 *        2  an absent key has the mark of the session
 *        3  the reader does not count the published leases
 *        4  a load notes the session when the answer has come
 */

#define L     2
#define NONE  255

#define kPong    1
#define kWritten 2

byte now;

/* The key. Version 0: it is absent; one that it has from the start, it has had
   for long. */
byte version = FIRST;
byte executed[WRITES + 1];
byte owner;

/* By server: what its turn has to send in the end, and the connection. */
bool pongs[SERVERS], dirty[SERVERS], ping[SERVERS];
chan brings[SERVERS] = [3] of { byte };

/* By server, at the near cache. */
byte session[SERVERS];  /* 0: none */
byte sessions;
bool unanswered[SERVERS];
byte sent[SERVERS], before[SERVERS];  /* the last PING, and the one before it */
byte until[SERVERS];
byte published;

/* The entry, and the load in flight. */
bool is_there, superseded;
byte found, mark, at, began;

byte moves, losses, pings;
bool is_over;  /* the read: what comes later does not matter */

inline Lose(n) {
  session[n] = 0; until[n] = 0; unanswered[n] = false;
  before[n] = NONE; sent[n] = 0; ping[n] = false; pongs[n] = false; dirty[n] = false;
  do :: brings[n] ? _ :: empty(brings[n]) -> break od
}

/* Whether an entry is one to be served, as far as time and lease tell. */
#define IS_SERVED(its_mark, its_server, its_start) \
  ((its_mark == 0 && its_start + L > now) || \
   (its_mark != 0 && its_mark == session[its_server] && until[its_server] > now))

/* Values that do not matter are set to 0, for fewer states. */
inline Forget() {
  is_there = false; found = 0; mark = 0; at = 0; began = 0
}

/* A server, and the near cache's thread for the connection to it. */
proctype Server(byte n) provided (!is_over) {
  byte message;
end:
  do
  :: atomic { owner == n && version < WRITES ->
       version++; executed[version] = now; dirty[n] = (session[n] != 0) }
  :: atomic { ping[n] -> ping[n] = false; pongs[n] = true }
  :: atomic { (pongs[n] || dirty[n]) && len(brings[n]) < 2 ->  /* the turn ends */
       if :: pongs[n] -> brings[n] ! kPong :: else fi;
       if :: dirty[n] -> brings[n] ! kWritten :: else fi;
       pongs[n] = false; dirty[n] = false }
  :: atomic { owner == n && SERVERS > 1 && moves < MOVES ->
       moves++; owner = 1 - n;
       if
       :: version > 0 ->  /* deleted here, restored there */
            dirty[n] = (session[n] != 0); dirty[owner] = (session[owner] != 0)
       :: else
       fi }

  :: atomic { session[n] == 0 -> sessions++; session[n] = sessions }
  :: atomic { session[n] != 0 && losses < LOSSES -> losses++; Lose(n) }
  :: atomic { session[n] != 0 && !unanswered[n] && pings < PINGS ->
       pings++; sent[n] = now; unanswered[n] = true; ping[n] = true }
  :: atomic { brings[n] ? message ->
       if
       :: message == kWritten -> Forget(); superseded = true
       :: message == kPong ->
#if FAULT == 1
            published++; until[n] = sent[n] + L;
#else
            if
            :: before[n] != NONE -> published++; until[n] = before[n] + L
            :: else
            fi;
#endif
            before[n] = sent[n]; sent[n] = 0; unanswered[n] = false
       fi;
       message = 0 }
  od
}

proctype Loader() provided (!is_over) {
  byte server, noted, start, value;
end:
  do
  :: atomic { is_there && !IS_SERVED(mark, at, began) -> Forget() }
  :: atomic { !is_there ->
       superseded = false; start = now;
       if :: server = 0 :: SERVERS > 1 -> server = SERVERS - 1 fi;
       noted = session[server] };
     atomic {
       if
       :: owner == server -> value = version
       :: else -> value = NONE  /* MOVED */
       fi };
     atomic {
#if FAULT == 4
       noted = session[server];
#endif
       if
       :: value == NONE || superseded || is_there -> skip
#if FAULT != 2
       :: value == 0 && !superseded && !is_there ->
            is_there = true; found = 0; mark = 0; began = start
       :: value != NONE && value > 0 && !superseded && !is_there && noted != 0 ->
#else
       :: value != NONE && !superseded && !is_there && noted != 0 ->
#endif
            is_there = true; found = value; mark = noted; at = server
       :: else
       fi;
       server = 0; noted = 0; start = 0; value = 0; superseded = false }
  od
}

#if FAULT == 3
#define IS_THE_SAME true
#else
#define IS_THE_SAME (whose == 0 || published == count)
#endif

proctype Reader() {
  byte start, count, value, whose, where, since, v;
  atomic { start = now; count = published };
end_1:
  atomic { is_there -> value = found; whose = mark; where = at; since = began };
end_2:
  atomic {
    IS_SERVED(whose, where, since) && IS_THE_SAME ->
    /* It serves the value: no write of L before the start is newer. */
    v = value;
    do
    :: v < version ->
         v++;
         assert(executed[v] + L > start)
    :: else -> break
    od;
    is_over = true
  }
}

proctype Time() provided (!is_over) {
end:
  do
  :: now < TICKS -> now++
  od
}

init {
  atomic {
    byte n;
    for (n : 0 .. SERVERS - 1) { before[n] = NONE }
    for (n : 0 .. SERVERS - 1) { run Server(n) }
    run Loader(); run Reader(); run Time()
  }
}
