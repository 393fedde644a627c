/*
 * The budget with credits, of one limit: Sets, removals, and a limit that falls
 * and rises, on shards that hold entries of any size. See budget.h.
 *
 * Room is free, used by entries, a credit of a shard, or claimed by a call. An
 * access without a lock is a step of its own. Properties:
 *  - At every instant, what is free, used, credit and claimed is the limit. So
 *    no more is used than the limit allows.
 *  - A Set evicts only after it has called in all credits, or has found that
 *    room is short.
 *  - When it finds that room is short, no shard has more credit than the rest
 *    that a Set leaves then, except while another call calls it in, or lowers
 *    the limit.
 *  - At the end no claim is left.
 *  - With LIVENESS: all calls end, Sets of the whole limit too, given weak
 *    fairness and locks that serve whoever came first.
 *
 * Left out: keys, expiry, the order of entries, and the second limit. Memory is
 * sequentially consistent: what is shared changes by read-modify-writes, or
 * under a lock, but for `state`, a hint as far as the first property goes.
 *
 * tests/models/check defines SHARDS; REST: 1, as of the bytes, or 0, as of the
 * entries; and the callers: SETTERS make CALLS calls each, Sets of one or two or
 * removals; WHOLES make one Set of the whole limit each; CHANGES, 0 or 1, lowers
 * the limit, to LOWERED, and raises it again. It may define
 * FAULT  1  credits are called in without the lock of their shard
 *        2  a Set that finds too little looks again, before it calls in
 *        3  a call-in begins again while another goes on (with LIVENESS)
 *        4  a limit that has fallen leaves the credits that there were
 */

#define CALLERS (SETTERS + WHOLES + CHANGES)

#define kLimit 7
#ifndef LOWERED
#define LOWERED 4
#endif
#define kPlenty 2  /* with more than this free, room is ample */

/* The most credit of a shard: while room is ample, and of what a Set leaves. */
#define SHARE (limit / 3)
#define MOST_REST (state == kAmple -> SHARE : REST * (SHARE / 2))

#define kAmple 0
#define kCalling 1
#define kShort 2

byte limit = kLimit;
byte free = kLimit;
byte state = kAmple;
byte used[SHARDS];
byte credit[SHARDS];
byte claim[CALLERS];
byte calling;              /* those that call in; not in the code */
byte ended;

#ifdef LIVENESS
chan queue[SHARDS] = [CALLERS] of { byte };
#define LOCK(shard) queue[shard]!me; queue[shard]?[eval(me)]
#define UNLOCK(shard) queue[shard]?eval(me)
#else
bool locked[SHARDS];
#define LOCK(shard) atomic { !locked[shard]; locked[shard] = true }
#define UNLOCK(shard) locked[shard] = false
#endif

/* Nothing is negative, either: in a byte that would be much. */
inline CheckSum() {
  d_step {
    sum = free;
    for (k : 0 .. SHARDS - 1) {
      sum = sum + used[k] + credit[k]
    }
    for (k : 0 .. CALLERS - 1) {
      sum = sum + claim[k]
    }
    assert(sum == limit);
    sum = 0;
    k = 0
  }
}

/* Quota::EndShortage, with what was free when x was set. */
inline EndShortage() {
  if
  :: x > kPlenty && state != kAmple -> state = kAmple
  :: else
  fi;
  x = 0
}

/* Quota::Take: up to `most`, if there is at least `least`. */
inline Take(least, most) {
  atomic {
    x = (free < most -> free : most);
    x = (x < least || x < 0 -> 0 : x);
    free = free - x;
    claim[me] = claim[me] + x;
    x = (x > 0 -> free : 0);
    CheckSum()
  };
  EndShortage()
}

inline GiveBack() {
  atomic {
    x = (claim[me] > 0 -> free + claim[me] : 0);
    free = free + claim[me];
    claim[me] = 0;
    CheckSum()
  };
  EndShortage()
}

/* Claim::CallIn; the lock of the shard is held, as in the next two. */
inline TakeCredit(shard) {
  claim[me] = claim[me] + credit[shard];
  credit[shard] = 0
}

/* Claim::LeaveTo, if there is anything to leave. */
inline LeaveTo(shard, most) {
  if
  :: claim[me] > 0 ->
     TakeCredit(shard);
     credit[shard] = (claim[me] <= most -> claim[me] : most / 2);
     claim[me] = claim[me] - credit[shard]
  :: else
  fi;
  CheckSum()
}

/* One entry, the smallest or the only one. */
inline Unlink(shard) {
  if
  :: used[shard] > 0 -> used[shard]--; claim[me]++
  :: used[shard] > 1 -> claim[me] = claim[me] + used[shard]; used[shard] = 0
  :: else
  fi;
  CheckSum()
}

/* Has found that room is short. */
inline MayEvict() {
  entitled = true;
  for (k : 0 .. SHARDS - 1) {
    assert(calling > 0 || credit[k] <= REST)
  }
  k = 0
}

/* Quota::BeginCallIn: sets calls_in. */
inline BeginCallIn() {
  if
  :: atomic { state == kShort -> calls_in = false; MayEvict() }
#if FAULT != 3
  :: state == kCalling -> calls_in = true
  :: atomic { state == kAmple -> calls_in = SHARE > 0 };
#else
  :: atomic { state != kShort -> calls_in = SHARE > 0 };
#endif
     atomic {
       if
       :: calls_in -> state = kCalling; calling++; said = true
       :: else -> state = kShort; MayEvict()
       fi
     }
  fi
}

inline CallInCredits() {
  do
  :: j < SHARDS ->
#if FAULT == 1
     x = credit[j];
     atomic { claim[me] = claim[me] + x; credit[j] = 0; x = 0; CheckSum() };
#else
     LOCK(j);
     atomic { TakeCredit(j); CheckSum(); UNLOCK(j) };
#endif
     j++
  :: atomic { j == SHARDS -> j = 0; break }
  od;
  atomic {
    state = (state == kCalling -> kShort : state);
    calling = calling - said;
    said = false;
    entitled = true
  }
}

/* Engine::EvictFromOthers, by shards that evict one entry at a time. */
inline EvictFromOthers(but) {
  do
  :: j < SHARDS && j != but ->
     LOCK(j);
     atomic { got = credit[j] > 0; TakeCredit(j) };
     Take(n - claim[me], n - claim[me]);
     atomic {
       if
       :: claim[me] < n && used[j] > 0 -> assert(entitled); Unlink(j); got = true
       :: else -> got = got || claim[me] >= n
       fi;
       UNLOCK(j)
     };
     if
     :: got -> break
     :: else -> j++
     fi
  :: atomic { j == but -> j++ }
  :: else -> GiveBack(); break
  od;
  atomic { got = false; j = 0 }
}

/* Claim::Cover, with the credit of shard i. */
inline Cover() {
  do
  :: claim[me] >= n -> break
  :: claim[me] < n && free < n - claim[me] - credit[i] ->
#if FAULT == 2
     if
     :: free >= n - claim[me] - credit[i] -> calls_in = false
     :: else -> BeginCallIn()
     fi;
#else
     BeginCallIn();
#endif
     break
  :: else ->
     atomic { TakeCredit(i); share = (state == kAmple -> SHARE : 0) };
     if
     :: claim[me] < n -> Take(n - claim[me], n - claim[me] + share)
     :: else
     fi;
     share = 0
  od
}

/* Stores n in shard i, unless the limit is lower. */
inline Set() {
  do
  :: n > limit -> break
  :: else ->
     LOCK(i);
     do
     :: Cover();
        if
        :: claim[me] < n && !calls_in && used[i] > 0 ->
           atomic { assert(entitled); Unlink(i) }
        :: else -> break
        fi
     od;
     if
     :: claim[me] >= n ->
        atomic { used[i] = used[i] + n; claim[me] = claim[me] - n; share = MOST_REST };
        atomic { LeaveTo(i, share); share = 0; UNLOCK(i) };
        break
     :: claim[me] < n && calls_in -> UNLOCK(i); CallInCredits()
     :: claim[me] < n && !calls_in -> UNLOCK(i); EvictFromOthers(i)
     fi
  od;
  GiveBack()
}

/* Removes an entry of shard i. */
inline Remove() {
  LOCK(i);
  atomic { Unlink(i); share = (state == kAmple -> SHARE : 0) };
  atomic { LeaveTo(i, share); share = 0; UNLOCK(i) };
  GiveBack()
}

proctype Setter(byte me) {
  byte calls, n, i, j, k, share;
  short x, sum;
  bool calls_in, entitled, said, got;
  do
  :: calls < (me < SETTERS -> CALLS : 1) ->
     atomic {
       calls++;
       select(i : 0 .. SHARDS - 1);
       if
       :: me >= SETTERS -> n = kLimit
       :: me < SETTERS -> select(n : 0 .. 2)
       fi
     };
     if
     :: n > 0 -> Set()
     :: else -> Remove()
     fi;
     atomic { n = 0; i = 0; calls_in = false; entitled = false }
  :: else -> break
  od;
  ended++
}

/* Limits::Approach: n is what the limit is still to lose. */
inline Approach() {
  Take(0, n - claim[me]);
  atomic {
    x = (claim[me] < n -> claim[me] : n);
    claim[me] = claim[me] - x;
    limit = limit - x;
    n = n - x;
    x = 0;
    CheckSum()
  }
}

/* Engine::SetLimits. It may evict, for it calls in at first in any case. */
proctype Changer(byte me) {
  byte n = (kLimit - LOWERED);
  byte j, k;
  short x, sum;
  bool began, calls_in, entitled, said, got;
  calling++;
  do
  :: Approach();
     if
     :: n == 0 -> break
     :: else -> BeginCallIn()
     fi;
     if
     :: calls_in || !began -> began = true; CallInCredits(); Approach()
     :: else
     fi;
     if
     :: n == 0 -> break
     :: else -> Take(n, n)
     fi;
     if
     :: claim[me] < n -> EvictFromOthers(SHARDS)
     :: else
     fi;
     Approach();
     GiveBack()
  od;
#if FAULT != 4
  CallInCredits();
#endif
  GiveBack();
  calling--;
  /* The limit first: never is more room free than it allows. */
  atomic { limit = kLimit; claim[me] = (kLimit - LOWERED); CheckSum() };
  GiveBack();
  ended++
}

init {
  byte i;
  atomic {
    for (i : 0 .. SHARDS - 1) {
      used[i] = 2;
      free = free - 2
    }
    for (i : 0 .. CALLERS - 1) {
      if
      :: i < SETTERS + WHOLES -> run Setter(i)
      :: else -> run Changer(i)
      fi
    }
  };
  ended == CALLERS;
  for (i : 0 .. CALLERS - 1) {
    assert(claim[i] == 0)
  }
}

#ifdef LIVENESS
ltl all_end { <>(ended == CALLERS) }
#endif
