// An old client of Node writes ten records to a topic and reads them back: node old_clients.js NAME HOST:PORT TOPIC
// Prints a line of JSON, the sorted values that were read.
const [name, bootstrap, topic] = process.argv.slice(2);
const values = Array.from({ length: 10 }, (_, number) => `value-${number}`);

function collect(done) {
  const found = [];
  return (value) => {
    found.push(String(value));
    if (found.length === values.length) done(found);
  };
}

const clients = {
  "kafka-node": async () => {
    const kafka = require("kafka-node");
    const client = new kafka.KafkaClient({ kafkaHost: bootstrap });
    const producer = new kafka.Producer(client);
    await new Promise((ready) => producer.on("ready", ready));
    const send = (messages, attributes) =>
      new Promise((done, fail) =>
        producer.send([{ topic, messages, attributes }], (error) => (error ? fail(error) : done())),
      );
    await send(values.slice(0, 5), 0);
    await send(values.slice(5), 1); // gzip
    return new Promise((done, fail) => {
      const take = collect(done);
      const payload = [{ topic, partition: 0, offset: 0 }];
      const consumer = new kafka.Consumer(new kafka.KafkaClient({ kafkaHost: bootstrap }), payload, { fromOffset: true });
      consumer.on("message", (message) => take(message.value));
      consumer.on("error", fail);
    });
  },
  "no-kafka": async () => {
    const kafka = require("no-kafka");
    const producer = new kafka.Producer({ connectionString: bootstrap, logger: { logLevel: 0 } });
    await producer.init();
    const messages = values.map((value) => ({ topic, partition: 0, message: { value } }));
    await producer.send(messages.slice(0, 5));
    await producer.send(messages.slice(5), { codec: kafka.COMPRESSION_GZIP });
    const consumer = new kafka.SimpleConsumer({ connectionString: bootstrap, logger: { logLevel: 0 } });
    await consumer.init();
    return new Promise((done) => {
      const take = collect(done);
      consumer.subscribe(topic, 0, { time: kafka.EARLIEST_OFFSET }, (set) =>
        set.forEach((one) => take(one.message.value)),
      );
    });
  },
};

clients[name]().then(
  (found) => {
    console.log(JSON.stringify(found.sort()));
    process.exit(0);
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
