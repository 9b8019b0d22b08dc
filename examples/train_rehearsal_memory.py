"""A Rehearsal Memory of your own: a stream, questions and labels as arrays, and an optax loop.

    python examples/train_rehearsal_memory.py

An item is a fact, person p is in place q, or chatter. A stream is 8 segments of 3 items, somewhere among them one fact
for each of 4 persons. When it is gone, questions come: where is this person? Replace `draw` by your own data: item ids
[B, T, N], questions and labels [B, Q]. The loss is that of the answers, and two of rehearsal: complete a fragment of
the stream, and tell it from one that never occurred.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from memjax import memories, ops
from memjax.memories import memorize

PEOPLE, PLACES, CHATTER, SEGMENTS, LENGTH = 4, 4, 16, 8, 3
ITEMS = (FACTS := PEOPLE * PLACES) + CHATTER  # ids: one for each fact that there may be, then chatter
WIDTH, SLOTS, BATCH, STEPS = 32, 8, 32, 300

random = np.random.default_rng(0)


def draw(count):
    """Streams [B, T, N] of items, the persons that are asked for [B, Q], the places [B, Q] where they are."""
    people, places = np.tile(np.arange(PEOPLE), (count, 1)), random.integers(PLACES, size=(count, PEOPLE))
    items = random.integers(FACTS, ITEMS, size=(count, SEGMENTS * LENGTH))
    where = np.argsort(random.random(items.shape))[:, :PEOPLE]
    np.put_along_axis(items, where, people * PLACES + places, 1)
    return items.reshape(count, SEGMENTS, LENGTH), people, places


class Model(nn.Module):
    """A memory, a reader that asks its slots, and a decoder that rehearses them."""

    def setup(self):
        self.embed, self.embed_person = nn.Embed(ITEMS, WIDTH), nn.Embed(PEOPLE, WIDTH)
        self.memory = memories.create("rehearsal", slots=SLOTS, width=WIDTH, segment=LENGTH, layers=1, heads=2)
        self.keys, self.answer_layer = nn.Dense(WIDTH), nn.Dense(PLACES)
        self.norm, self.decode, self.judge = nn.LayerNorm(), nn.Dense(WIDTH), nn.Dense(1)
        self.complete = nn.Dense(LENGTH * WIDTH)
        self.hidden = self.param("hidden", nn.initializers.normal(0.1), (WIDTH,))

    def read(self, slots, query):
        """Attention over the slots; this reader and the decoder see nothing else of the stream."""
        values = self.norm(slots.values)
        return nn.softmax(self.keys(values) @ query) @ values

    def __call__(self, stream, questions):
        """One example: the slots, and the logits of the answers; the stream is written once for all questions."""
        state, _ = memorize(self.memory, self.embed(stream))
        slots = self.memory.slots(state)
        found = jax.vmap(self.read, (None, 0))(slots, self.embed_person(questions))
        return slots, self.answer_layer(found)

    def rehearse(self, slots, fragment, hidden):
        """Completes a fragment [N] of which some items are hidden, and says whether it has occurred."""
        seen = jnp.where(hidden[:, None], self.hidden, self.embed(fragment))
        query = self.decode(seen.reshape(-1))
        found = nn.relu(query + self.read(slots, query))
        return self.complete(found).reshape(seen.shape), self.judge(found)[0]


model = Model()
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def losses(params, stream, questions, labels, key):
    """Answer, recollection and familiarity of one example, and how many answers are right."""
    slots, logits = model.apply(params, stream, questions)
    answer = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    # One segment of the stream with an item hidden; and the same with another item in it, which was not there.
    segment_key, item_key = jax.random.split(key)
    fragment = stream[jax.random.randint(segment_key, (), 0, SEGMENTS)]
    other = fragment.at[0].set((fragment[0] + jax.random.randint(item_key, (), 1, ITEMS)) % ITEMS)
    hidden = jnp.arange(LENGTH) == LENGTH - 1
    predicted, _ = model.apply(params, slots, fragment, hidden, method="rehearse")
    table = params["params"]["embed"]["embedding"]
    recollection = ops.recollection_loss(predicted, table, fragment, hidden)
    judged = [model.apply(params, slots, f, jnp.zeros(LENGTH, bool), method="rehearse")[1] for f in (fragment, other)]
    familiarity = ops.familiarity_loss(judged[0][None], judged[1][None])
    return answer + recollection + 0.5 * familiarity, (logits.argmax(-1) == labels).mean()


def batch_loss(params, streams, questions, labels, key):
    keys = jax.random.split(key, len(streams))
    loss, right = jax.vmap(losses, (None, 0, 0, 0, 0))(params, streams, questions, labels, keys)
    return loss.mean(), right.mean()


@jax.jit
def step(params, opt_state, batch, key):
    (loss, accuracy), gradients = jax.value_and_grad(batch_loss, has_aux=True)(params, *batch, key)
    updates, opt_state = optimizer.update(gradients, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss, accuracy


def main():
    def everything(model, stream, questions):
        slots, logits = model(stream, questions)
        return logits, model.rehearse(slots, stream[0], jnp.zeros(LENGTH, bool))

    streams, questions, _ = draw(1)
    params = model.init(jax.random.key(0), streams[0], questions[0], method=everything)
    opt_state = optimizer.init(params)
    for number in range(STEPS):
        params, opt_state, loss, accuracy = step(params, opt_state, draw(BATCH), jax.random.key(number))
        if number % 50 == 49:
            print(f"step {number + 1:4}  loss {loss:.3f}  accuracy {accuracy:.2f}", flush=True)
    _, right = jax.jit(batch_loss)(params, *draw(1000), jax.random.key(0))
    print(f"on 1,000 new streams: {right:.2f} right, by chance {1 / PLACES:.2f}")
    return float(right)


if __name__ == "__main__":
    main()
