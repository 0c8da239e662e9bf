// Clients of Node, asked as tests/interop/trials.py says: node clients.js NAME HOST:PORT VERB ARGUMENTS
const [name, bootstrap, verb, ...given] = process.argv.slice(2);
const padding = ".".repeat(200);
const say = (word, value) => console.log(word, String(value).replace(/\.+$/, ""));
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const ended = new Promise((done) => {
  if (verb === "read") process.stdin.on("end", done).resume();
});

async function writeAll(prefix, count, pause, send) {
  for (let number = 0; number < count; number++) {
    const value = `${prefix}-${number}${padding}`;
    await send(value).then(
      () => say("acked", value),
      (error) => {
        console.error(value, error);
        say("failed", value);
      },
    );
    await sleep(pause);
  }
}

// kafkajs, and the client of Confluent that has its interface
function likeKafkajs(kafka, more, fromBeginning) {
  const { producerSettings, consumerSettings } = more;
  return {
    write: async (topic, prefix, count, codec, pause) => {
      const { send: sendSettings, ...settings } = producerSettings(codec);
      const producer = kafka.producer(settings);
      await producer.connect();
      await writeAll(prefix, count, pause, (value) => producer.send({ topic, messages: [{ value }], ...sendSettings }));
      await producer.disconnect();
    },
    read: async (topic, group) => {
      const consumer = kafka.consumer(consumerSettings(group));
      await consumer.connect();
      await consumer.subscribe({ topic, ...fromBeginning });
      await consumer.run({ eachMessage: async ({ message }) => say("read", message.value) });
      await ended;
      await consumer.disconnect();
    },
    transact: async (topic) => {
      const producer = kafka.producer(producerSettings("none", topic));
      await producer.connect();
      for (const prefix of ["kept", "gone", "kept-too"]) {
        const transaction = await producer.transaction();
        const messages = Array.from({ length: 5 }, (_, number) => ({ value: `${prefix}-${number}${padding}` }));
        await transaction.send({ topic, messages });
        await (prefix === "gone" ? transaction.abort() : transaction.commit());
      }
      await producer.disconnect();
    },
    admin: async (topic) => {
      const admin = kafka.admin();
      await admin.connect();
      await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] });
      const found = await admin.fetchTopicMetadata({ topics: [topic] });
      say("partitions", (found.topics ?? found)[0].partitions.length);
      await admin.deleteTopics({ topics: [topic] });
      say("there", (await admin.listTopics()).includes(topic));
      await admin.disconnect();
    },
  };
}

const clients = {
  kafkajs: () => {
    const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
    const retry = { retries: 60, maxRetryTime: 1000 };
    const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry });
    return likeKafkajs(
      kafka,
      {
        producerSettings: (codec, transactionalId) => {
          const settings = { idempotent: true, maxInFlightRequests: 1, retry };
          if (transactionalId) return { ...settings, transactionalId };
          return { ...settings, send: { compression: codec === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None } };
        },
        consumerSettings: (groupId) => ({ groupId, retry }),
      },
      { fromBeginning: true },
    );
  },
  confluent: () => {
    const { Kafka } = require("@confluentinc/kafka-javascript").KafkaJS;
    const kafka = new Kafka({ "bootstrap.servers": bootstrap, log_level: 0 });
    return likeKafkajs(
      kafka,
      {
        producerSettings: (codec, id) => {
          const settings = { "enable.idempotence": true, "compression.type": codec };
          return id ? { ...settings, "transactional.id": id } : settings;
        },
        consumerSettings: (group) => ({
          "group.id": group,
          "auto.offset.reset": "earliest",
          "partition.assignment.strategy": "roundrobin",
        }),
      },
      {},
    );
  },
  platformatic: () => {
    const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = require("@platformatic/kafka");
    const common = { clientId: "interop", bootstrapBrokers: [bootstrap], retries: 60, retryDelay: 250 };
    return {
      write: async (topic, prefix, count, compression, pause) => {
        const settings = { ...common, serializers: stringSerializers, idempotent: true, compression };
        const producer = new Producer(settings);
        await writeAll(prefix, count, pause, (value) => producer.send({ messages: [{ topic, value }] }));
        await producer.close();
      },
      read: async (topic, groupId) => {
        const consumer = new Consumer({ ...common, groupId, deserializers: stringDeserializers });
        const settings = { topics: [topic], mode: "committed", fallbackMode: "earliest", autocommit: false };
        const stream = await consumer.consume({ ...settings, maxWaitTime: 200 });
        stream.on("data", async (message) => {
          say("read", message.value);
          await Promise.resolve(message.commit()).catch((error) => console.error(error));
        });
        stream.on("error", (error) => console.error(error));
        await ended;
        await stream.close();
        await consumer.close(true);
      },
      admin: async (topic) => {
        const admin = new Admin(common);
        await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 });
        const found = await admin.metadata({ topics: [topic] });
        say("partitions", found.topics.get(topic).partitionsCount);
        await admin.deleteTopics({ topics: [topic] });
        say("there", (await admin.listTopics()).includes(topic));
        await admin.close();
      },
    };
  },
  "node-rdkafka": () => {
    const rdkafka = require("node-rdkafka");
    const common = { "bootstrap.servers": bootstrap };
    const ready = (client) => new Promise((done, fail) => client.connect({}, (error) => (error ? fail(error) : done())));
    return {
      write: async (topic, prefix, count, codec, pause) => {
        const settings = { ...common, "enable.idempotence": true, "compression.codec": codec };
        const producer = new rdkafka.HighLevelProducer(settings);
        await ready(producer);
        await writeAll(
          prefix,
          count,
          pause,
          (value) =>
            new Promise((done, fail) =>
              producer.produce(topic, null, Buffer.from(value), null, null, (error) => (error ? fail(error) : done())),
            ),
        );
        await new Promise((done) => producer.disconnect(done));
      },
      read: async (topic, group) => {
        const settings = { ...common, "group.id": group, "partition.assignment.strategy": "roundrobin" };
        const consumer = new rdkafka.KafkaConsumer(settings, { "auto.offset.reset": "earliest" });
        await ready(consumer);
        consumer.on("data", (message) => say("read", message.value));
        consumer.subscribe([topic]);
        consumer.consume();
        await ended;
        await new Promise((done) => consumer.disconnect(done));
      },
    };
  },
};

const [first, second, ...rest] = given;
const numbers = verb === "write" ? [Number(rest[0]), rest[1], Number(rest[2])] : [];
clients[name]()
  [verb](first, second, ...numbers)
  .then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
