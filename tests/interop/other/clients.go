// One client of Go writes ten records to a topic and reads them back: clients NAME HOST:PORT TOPIC
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func values() []string {
	var made []string
	for number := 0; number < 10; number++ {
		made = append(made, fmt.Sprintf("value-%d", number))
	}
	return made
}

func franz(ctx context.Context, bootstrap, topic string) (found []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(topic+"-group"), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	defer client.Close()
	for _, value := range values() {
		check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}).FirstErr())
	}
	for len(found) < 10 {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(one *kgo.Record) { found = append(found, string(one.Value)) })
	}
	check(client.CommitUncommittedOffsets(ctx))
	return found
}

type handler struct {
	found []string
	stop  context.CancelFunc
}

func (*handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (one *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		one.found = append(one.found, string(message.Value))
		session.MarkMessage(message, "")
		if len(one.found) == 10 {
			one.stop()
			return nil
		}
	}
	return nil
}

func ibm(ctx context.Context, bootstrap, topic string) []string {
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	config.Producer.Compression = sarama.CompressionSnappy
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	check(err)
	for _, value := range values() {
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check(err)
	}
	check(producer.Close())
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, topic+"-group", config)
	check(err)
	reading, stop := context.WithCancel(ctx)
	taken := &handler{stop: stop}
	for len(taken.found) < 10 && reading.Err() == nil {
		err = group.Consume(reading, []string{topic}, taken)
		if reading.Err() == nil {
			check(err)
		}
	}
	check(group.Close())
	return taken.found
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
	defer stop()
	clients := map[string]func(context.Context, string, string) []string{"franz-go": franz, "sarama": ibm}
	found := clients[os.Args[1]](ctx, os.Args[2], os.Args[3])
	sort.Strings(found)
	check(json.NewEncoder(os.Stdout).Encode(found))
}
