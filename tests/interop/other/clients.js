// One client of Node writes ten records to a topic and reads them back: node clients.js NAME HOST:PORT TOPIC
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
  kafkajs: async () => {
    const { Kafka, logLevel } = require("kafkajs");
    const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING });
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
    await producer.connect();
    await producer.send({ topic, messages: values.map((value) => ({ key: "k", value })) });
    await producer.disconnect();
    const consumer = kafka.consumer({ groupId: `${topic}-group` });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    return new Promise((done) => {
      const take = collect(done);
      consumer.run({ eachMessage: async ({ message }) => take(message.value) });
    });
  },
  platformatic: async () => {
    const { Producer, Consumer, stringSerializers, stringDeserializers } = require("@platformatic/kafka");
    const common = { clientId: "interop", bootstrapBrokers: [bootstrap] };
    const producer = new Producer({ ...common, serializers: stringSerializers });
    await producer.send({ messages: values.map((value) => ({ topic, key: "k", value })) });
    await producer.close();
    const consumer = new Consumer({ ...common, groupId: `${topic}-group`, deserializers: stringDeserializers });
    const stream = await consumer.consume({ topics: [topic], mode: "earliest" });
    return new Promise((done) => {
      const take = collect(done);
      stream.on("data", (message) => take(message.value));
    });
  },
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
