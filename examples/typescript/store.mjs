// OrderedStore keeps what a session sent, in order. An id is STREAM/POSITION: the
// transport has to learn from an id which stream it is of, and a replay has to begin right
// behind it. It keeps everything; a server that lives long wants a bound.
export class OrderedStore {
  #logs = new Map();

  async storeEvent(stream, message) {
    const log = this.#logs.get(stream) ?? [];
    this.#logs.set(stream, log);
    return `${stream}/${log.push(message)}`;
  }

  async getStreamIdForEventId(id) {
    return this.#find(id)?.stream;
  }

  async replayEventsAfter(id, { send }) {
    const found = this.#find(id);
    if (found === undefined) {
      throw new Error("unknown event id");
    }
    const { stream, position, log } = found;
    for (let i = position; i < log.length; i++) { // it may grow while send waits
      await send(`${stream}/${i + 1}`, log[i]);
    }
    return stream;
  }

  #find(id) {
    const slash = id.lastIndexOf("/");
    const stream = id.slice(0, slash);
    const position = Number(id.slice(slash + 1));
    const log = this.#logs.get(stream);
    return log !== undefined && position > 0 && position <= log.length ? { stream, position, log } : undefined;
  }
}
