// Writes filters.jsonl: hashes and stored filters as Hadoop makes them, from a fixed seed.
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.util.bloom.BloomFilter;
import org.apache.hadoop.util.bloom.DynamicBloomFilter;
import org.apache.hadoop.util.bloom.Filter;
import org.apache.hadoop.util.bloom.Key;
import org.apache.hadoop.util.hash.Hash;

public class Filters {
    static final Random RANDOM = new Random(5);
    static final HexFormat HEX = HexFormat.of();

    static byte[] key() {
        byte[] key = new byte[1 + RANDOM.nextInt(40)];
        RANDOM.nextBytes(key);
        if (RANDOM.nextBoolean())
            for (int i = 0; i < key.length; i++)
                key[i] = (byte) ('0' + (key[i] & 63));
        return key;
    }

    static String hexes(List<byte[]> keys) {
        List<String> all = new ArrayList<>();
        for (byte[] key : keys)
            all.add("\"" + HEX.formatHex(key) + "\"");
        return "[" + String.join(",", all) + "]";
    }

    static byte[] bytes(Filter filter) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        filter.write(new DataOutputStream(out));
        return out.toByteArray();
    }

    // The bytes before filters had a version: no -1, no hash type.
    static byte[] oldForm(byte[] row) {
        ByteBuffer out = ByteBuffer.allocate(row.length - 5);
        return out.put(row, 4, 4).put(row, 9, row.length - 9).array();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream("filters.jsonl");
        for (int i = 0; i < 400; i++) {
            byte[] key = key();
            int seed = i % 4 == 0 ? 0 : RANDOM.nextInt();
            out.printf("{\"hash\":\"%s\",\"seed\":%d,\"murmur\":%d,\"jenkins\":%d}%n", HEX.formatHex(key), seed,
                Hash.getInstance(Hash.MURMUR_HASH).hash(key, key.length, seed),
                Hash.getInstance(Hash.JENKINS_HASH).hash(key, key.length, seed));
        }
        for (int i = 0; i < 60; i++) {
            int bits = 1 + RANDOM.nextInt(i % 3 == 0 ? 40 : 3000), hashes = 1 + RANDOM.nextInt(12);
            int type = i % 2 == 0 ? Hash.MURMUR_HASH : Hash.JENKINS_HASH, each = 1 + RANDOM.nextInt(20);
            boolean rows = i % 5 > 1;
            Filter filter = rows ? new DynamicBloomFilter(bits, hashes, type, each) : new BloomFilter(bits, hashes, type);
            List<byte[]> keys = new ArrayList<>(), others = new ArrayList<>();
            for (int n = RANDOM.nextInt(60); n > 0; n--)
                keys.add(key());
            for (byte[] key : keys)
                filter.add(new Key(key));
            StringBuilder answers = new StringBuilder();
            for (int n = 0; n < 60; n++) {
                others.add(key());
                answers.append(filter.membershipTest(new Key(others.get(n))) ? '1' : '0');
            }
            byte[] stored = bytes(filter);
            String old = "";
            if (!rows && type == Hash.JENKINS_HASH) {
                byte[] form = oldForm(stored);
                BloomFilter read = new BloomFilter();
                read.readFields(new DataInputStream(new ByteArrayInputStream(form)));
                if (!java.util.Arrays.equals(bytes(read), stored))
                    throw new AssertionError("Hadoop reads the old form otherwise");
                old = HEX.formatHex(form);
            }
            out.printf("{\"dynamic\":%b,\"bits\":%d,\"hashes\":%d,\"type\":%d,\"each\":%d,\"keys\":%s,\"others\":%s,"
                + "\"answers\":\"%s\",\"stored\":\"%s\",\"old\":\"%s\"}%n", rows, bits, hashes, type, each, hexes(keys),
                hexes(others), answers, HEX.formatHex(stored), old);
        }
        out.close();
    }
}
