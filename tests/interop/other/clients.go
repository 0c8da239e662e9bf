// Clients of Go, asked as tests/interop/trials.py says: clients NAME HOST:PORT VERB ARGUMENTS
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const padding = 200 // dots behind each value, so that codecs have something to do

type client interface {
	write(topic, prefix string, count int, codec string, pause time.Duration)
	read(ctx context.Context, topic, group string)
	transact(topic string)
	admin(topic string)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var printing sync.Mutex

func say(word, value string) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(word, strings.TrimRight(value, "."))
}

func said(value string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, value, err)
		say("failed", value)
	} else {
		say("acked", value)
	}
}

func made(prefix string, number int) string {
	return fmt.Sprintf("%s-%d%s", prefix, number, strings.Repeat(".", padding))
}

// franz-go

type franz struct{ bootstrap string }

func (one franz) client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(one.bootstrap))...)
	check(err)
	return made
}

func (one franz) write(topic, prefix string, count int, codec string, pause time.Duration) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	client := one.client(kgo.ProducerBatchCompression(codecs[codec]))
	defer client.Close()
	for number := 0; number < count; number++ {
		value := made(prefix, number)
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)},
			func(_ *kgo.Record, err error) { said(value, err) })
		time.Sleep(pause)
	}
	check(client.Flush(context.Background()))
}

func (one franz) read(ctx context.Context, topic, group string) {
	client := one.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(one *kgo.Record) { say("read", string(one.Value)) })
	}
	check(client.CommitUncommittedOffsets(context.Background()))
	client.Close()
}

func (one franz) transact(topic string) {
	client := one.client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	defer client.Close()
	for _, prefix := range []string{"kept", "gone", "kept-too"} {
		check(client.BeginTransaction())
		for number := 0; number < 5; number++ {
			record := &kgo.Record{Value: []byte(made(prefix, number))}
			check(client.ProduceSync(context.Background(), record).FirstErr())
		}
		check(client.EndTransaction(context.Background(), kgo.TransactionEndTry(prefix != "gone")))
	}
}

func (one franz) admin(topic string) {
	client := kadm.NewClient(one.client())
	defer client.Close()
	_, err := client.CreateTopic(context.Background(), 3, 1, nil, topic)
	check(err)
	found, err := client.ListTopics(context.Background(), topic)
	check(err)
	say("partitions", strconv.Itoa(len(found[topic].Partitions)))
	deleted, err := client.DeleteTopics(context.Background(), topic)
	check(err)
	check(deleted.Error())
	found, err = client.ListTopics(context.Background())
	check(err)
	say("there", strconv.FormatBool(found.Has(topic)))
}

// Sarama

type ibm struct{ bootstrap string }

func (one ibm) servers() []string { return []string{one.bootstrap} }

func (one ibm) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Retry.Max = 200
	config.Net.MaxOpenRequests = 1
	config.Metadata.Retry.Max = 200
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	return config
}

func (one ibm) write(topic, prefix string, count int, codec string, pause time.Duration) {
	config := one.config()
	check(config.Producer.Compression.UnmarshalText([]byte(codec)))
	producer, err := sarama.NewSyncProducer(one.servers(), config)
	check(err)
	for number := 0; number < count; number++ {
		value := made(prefix, number)
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		said(value, err)
		time.Sleep(pause)
	}
	check(producer.Close())
}

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			say("read", string(message.Value))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func (one ibm) read(ctx context.Context, topic, group string) {
	member, err := sarama.NewConsumerGroup(one.servers(), group, one.config())
	check(err)
	for ctx.Err() == nil {
		if err = member.Consume(ctx, []string{topic}, handler{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	check(member.Close())
}

func (one ibm) transact(topic string) {
	config := one.config()
	config.Producer.Transaction.ID = topic
	producer, err := sarama.NewSyncProducer(one.servers(), config)
	check(err)
	for _, prefix := range []string{"kept", "gone", "kept-too"} {
		check(producer.BeginTxn())
		for number := 0; number < 5; number++ {
			value := sarama.StringEncoder(made(prefix, number))
			_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value})
			check(err)
		}
		if prefix == "gone" {
			check(producer.AbortTxn())
		} else {
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
}

func (one ibm) admin(topic string) {
	admin, err := sarama.NewClusterAdmin(one.servers(), one.config())
	check(err)
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false))
	found, err := admin.DescribeTopics([]string{topic})
	check(err)
	say("partitions", strconv.Itoa(len(found[0].Partitions)))
	check(admin.DeleteTopic(topic))
	topics, err := admin.ListTopics()
	check(err)
	_, there := topics[topic]
	say("there", strconv.FormatBool(there))
	check(admin.Close())
}

// kafka-go

type segmentio struct{ bootstrap string }

func (one segmentio) write(topic, prefix string, count int, codec string, pause time.Duration) {
	codecs := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	writer := &kafka.Writer{Addr: kafka.TCP(one.bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll,
		Compression: codecs[codec], BatchTimeout: time.Millisecond, MaxAttempts: 100, Balancer: &kafka.RoundRobin{}}
	for number := 0; number < count; number++ {
		value := made(prefix, number)
		said(value, writer.WriteMessages(context.Background(), kafka.Message{Value: []byte(value)}))
		time.Sleep(pause)
	}
	check(writer.Close())
}

func (one segmentio) read(ctx context.Context, topic, group string) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{one.bootstrap}, GroupID: group, Topic: topic,
		StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond, GroupBalancers: []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}}})
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, err)
			}
			continue
		}
		say("read", string(message.Value))
		if err = reader.CommitMessages(context.Background(), message); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	check(reader.Close())
}

func (one segmentio) transact(string) { check(errors.New("kafka-go has no transactional producer")) }

func (one segmentio) admin(topic string) {
	client := &kafka.Client{Addr: kafka.TCP(one.bootstrap)}
	ctx := context.Background()
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}}})
	check(err)
	check(created.Errors[topic])
	found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	check(err)
	say("partitions", strconv.Itoa(len(found.Topics[0].Partitions)))
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	check(err)
	check(deleted.Errors[topic])
	client.Transport = &kafka.Transport{} // the other remembers what it was told
	found, err = client.Metadata(ctx, &kafka.MetadataRequest{})
	check(err)
	there := false
	for _, one := range found.Topics {
		there = there || one.Name == topic
	}
	say("there", strconv.FormatBool(there))
}

func main() {
	name, bootstrap, verb, given := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	asked := map[string]client{"franz-go": franz{bootstrap}, "sarama": ibm{bootstrap}, "kafka-go": segmentio{bootstrap}}[name]
	switch verb {
	case "write":
		count, err := strconv.Atoi(given[2])
		check(err)
		pause, err := strconv.Atoi(given[4])
		check(err)
		asked.write(given[0], given[1], count, given[3], time.Duration(pause)*time.Millisecond)
	case "read": // until standard input ends
		ctx, stop := context.WithCancel(context.Background())
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }()
		asked.read(ctx, given[0], given[1])
	case "transact":
		asked.transact(given[0])
	case "admin":
		asked.admin(given[0])
	}
}
