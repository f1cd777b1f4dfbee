// OrderedStore is an event store that keeps the promise of resumability: one per
// session, ids in the order of the events, no await between the last look at a log and
// the end of a replay. An id is STREAM/POSITION, so that the transport can tell which
// stream it belongs to.
export class OrderedStore {
  #logs = new Map();

  async storeEvent(stream, message) {
    if (!this.#logs.has(stream)) this.#logs.set(stream, []);
    return `${stream}/${this.#logs.get(stream).push(message)}`;
  }

  // The transport answers 409 while the stream that it is told has a connection.
  async getStreamIdForEventId(id) {
    return this.#find(id)?.stream;
  }

  async replayEventsAfter(id, { send }) {
    const { stream, log, position } = this.#find(id);
    for (let i = position; i < log.length; i++) { // the log may grow while send waits
      await send(`${stream}/${i + 1}`, log[i]);
    }
    return stream;
  }

  #find(id) {
    const cut = id.lastIndexOf("/");
    const stream = id.slice(0, cut);
    const position = Number(id.slice(cut + 1));
    const log = this.#logs.get(stream);
    const known = log !== undefined && Number.isInteger(position) && position > 0 && position <= log.length;
    return known ? { stream, log, position } : undefined;
  }
}

// LateStore is just as correct, and says that a replay is over a little later, as a
// store across a network does.
export class LateStore extends OrderedStore {
  async replayEventsAfter(id, to) {
    const stream = await super.replayEventsAfter(id, to);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return stream;
  }
}
